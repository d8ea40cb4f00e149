// Preloaded into one rank by faults.py: functions of the C library behave as on a faulty host.
//   FAULT_CLOCK=S   the wall clock jumps by S seconds, half a second after the first look at it
//   FAULT_PORTS=1   the program finds every TCP port taken; the libraries under MPI do not
//   FAULT_OPEN=S    opening a data file (*.gz) takes S seconds
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int value_of(const char* name) {
  const char* text = getenv(name);
  return text ? atoi(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  static long first;
  struct timespec now;
  const long result = syscall(SYS_clock_gettime, clock, time);
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  const long ms = now.tv_sec * 1000 + now.tv_nsec / 1000000;
  if (!first) first = ms;
  if (clock == CLOCK_REALTIME && ms - first > 500) time->tv_sec += value_of("FAULT_CLOCK");
  return (int)result;
}

int bind(int socket, const struct sockaddr* address, socklen_t length) {
  Dl_info caller;
  if (value_of("FAULT_PORTS") && dladdr(__builtin_return_address(0), &caller) &&
      strstr(caller.dli_fname, "train_mlp")) {
    errno = EADDRINUSE;
    return -1;
  }
  return (int)syscall(SYS_bind, socket, address, length);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const int mode = va_arg(more, int);
  va_end(more);
  if (strstr(path, ".gz")) sleep((unsigned)value_of("FAULT_OPEN"));
  return (int)syscall(SYS_openat, -100 /* AT_FDCWD */, path, flags, mode);
}

int open(const char* path, int flags, ...) __attribute__((alias("open64")));
