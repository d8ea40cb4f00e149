// Preloaded by check_plan.py and bench_buckets.py: a product of matrices lasts 2 m n k / (SLOW_GFLOPS * 1e9) seconds, as on a
// device beside the processor. It is computed at once, and the thread sleeps for the rest of the time.
#define _GNU_SOURCE
#include <cblas.h>
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static double gflops; // 0: products are not slowed

__attribute__((constructor)) static void read_rate(void) {
  const char* text = getenv("SLOW_GFLOPS");
  gflops = text ? atof(text) : 0.0;
}

static struct timespec now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time;
}

// By default Linux wakes a sleeper up to 50 us late, which is as long as a small product.
static void sleep_until_end(struct timespec begin, double m, double n, double k) {
  static __thread int exact;
  if (!exact) exact = prctl(PR_SET_TIMERSLACK, 1000UL) == 0;
  if (gflops <= 0.0) return;
  const long end = begin.tv_nsec + (long)(2.0 * m * n * k / gflops);
  const struct timespec wake = {begin.tv_sec + end / 1000000000, end % 1000000000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL);
}

dnnl_status_t dnnl_sgemm(char transa, char transb, dnnl_dim_t m, dnnl_dim_t n, dnnl_dim_t k, float alpha,
                         const float* a, dnnl_dim_t lda, const float* b, dnnl_dim_t ldb, float beta,
                         float* c, dnnl_dim_t ldc) {
  static __typeof__(&dnnl_sgemm) real;
  if (!real) real = dlsym(RTLD_NEXT, "dnnl_sgemm");
  const struct timespec begin = now();
  const dnnl_status_t status = real(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  sleep_until_end(begin, m, n, k);
  return status;
}

// Brigade executes no other primitive than matmul: source [m, k], destination [m, n].
dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int count,
                                     const dnnl_exec_arg_t* arguments) {
  static __typeof__(&dnnl_primitive_execute) real;
  if (!real) real = dlsym(RTLD_NEXT, "dnnl_primitive_execute");
  const struct timespec begin = now();
  const dnnl_status_t status = real(primitive, stream, count, arguments);
  const dnnl_memory_desc_t *source = NULL, *destination = NULL;
  for (int i = 0; i < count; ++i) {
    if (arguments[i].arg == DNNL_ARG_SRC) dnnl_memory_get_memory_desc(arguments[i].memory, &source);
    if (arguments[i].arg == DNNL_ARG_DST) dnnl_memory_get_memory_desc(arguments[i].memory, &destination);
  }
  sleep_until_end(begin, source->dims[0], destination->dims[1], source->dims[1]);
  return status;
}

static __typeof__(&cblas_sgemm) real_sgemm;

static void slow_sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE transa, enum CBLAS_TRANSPOSE transb, blasint m,
                       blasint n, blasint k, float alpha, const float* a, blasint lda, const float* b, blasint ldb,
                       float beta, float* c, blasint ldc) {
  const struct timespec begin = now();
  real_sgemm(order, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  sleep_until_end(begin, m, n, k);
}

// OpenBLAS is loaded with dlopen, and its functions are looked up.
void* dlsym(void* library, const char* name) {
  static __typeof__(&dlsym) real;
  if (!real) real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  void* address = real(library, name);
  if (strcmp(name, "cblas_sgemm") != 0) return address;
  real_sgemm = address;
  return slow_sgemm;
}
