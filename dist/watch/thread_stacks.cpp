#include "dist/watch/thread_stacks.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <string_view>

namespace brigade::dist {

ThreadStacks::ThreadStacks(pid_t process) : output_(memfd_create("stacks", MFD_CLOEXEC)) {
  const std::string pid = std::to_string(process);
  gdb_ = fork();
  if (gdb_ == 0) {  // from here on only what a signal handler may call, too
    close(STDIN_FILENO);
    dup2(output_.get(), STDOUT_FILENO);
    dup2(output_.get(), STDERR_FILENO);
    execlp("gdb", "gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex",
           "thread apply all backtrace 30", "-p", pid.c_str(), nullptr);
    constexpr std::string_view kWhy = "gdb is not installed";
    [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, kWhy.data(), kWhy.size());
    _exit(1);
  }
}

// A gdb that is killed may leave the process stopped for ever.
ThreadStacks::~ThreadStacks() {
  if (gdb_ > 0) {
    waitpid(gdb_, nullptr, 0);
  }
}

double ThreadStacks::seconds_of_pause() {
  if (gdb_ > 0) {
    pause_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  if (gdb_ < 0 || (gdb_ > 0 && waitpid(gdb_, nullptr, WNOHANG) != 0)) {
    gdb_ = 0;
  }
  return pause_;
}

std::vector<std::string> ThreadStacks::lines() const {
  std::string text(std::size_t{1} << 20U, '\0');
  const ssize_t size = pread(output_.get(), text.data(), text.size(), 0);
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  std::istringstream stream(text);
  std::vector<std::string> result;
  std::string last = "gdb has not said anything yet";
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with('#') || line.starts_with("Thread ")) {
      result.push_back(line);
    }
    last = line.empty() ? last : line;
  }
  return result.empty() ? std::vector{last} : result;
}

}  // namespace brigade::dist
