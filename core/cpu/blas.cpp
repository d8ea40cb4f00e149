#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/config.h"
#include "core/cpu/blas_private.h"
#include "core/cpu/features_private.h"
#include "core/cpu/gemm_in_parts.h"
#include "core/cpu/onednn_private.h"
#include "core/cpu/threads.h"
#include "core/error.h"

namespace brigade {
namespace {

std::atomic<int> threads_set = 0;

template <class Function>
Function* symbol(void* library, const char* name) {
  void* address = dlsym(library, name);
  BRIGADE_CHECK(address != nullptr, "blas: OpenBLAS has no symbol {}", name);
  return reinterpret_cast<Function*>(address);
}

Blas load() {
  if (cpu_is_amd_with_avx512()) {
    setenv("OPENBLAS_CORETYPE", "Haswell", /*overwrite=*/0);
  }
  void* library = dlopen(kOpenBlasPath, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);  // installed elsewhere than built
  }
  BRIGADE_CHECK(library != nullptr, "blas: cannot load OpenBLAS ({}); run scripts/setup.sh",
                dlerror());
  Blas result;
  result.sgemm = symbol<std::remove_pointer_t<decltype(result.sgemm)>>(library, "cblas_sgemm");
  result.dgemm = symbol<std::remove_pointer_t<decltype(result.dgemm)>>(library, "cblas_dgemm");
  result.set_num_threads = symbol<void(int)>(library, "openblas_set_num_threads");
  const std::string config = symbol<char*()>(library, "openblas_get_config")();
  constexpr std::string_view kMaxThreads = "MAX_THREADS=";  // missing if it is built for one
  if (const std::size_t at = config.find(kMaxThreads); at != std::string::npos) {
    result.max_threads = std::stoi(config.substr(at + kMaxThreads.size()));
  }
  const std::string name_and_version = config.substr(0, config.find(' ', config.find(' ') + 1));
  result.description = fmt::format("{} ({} kernels)", name_and_version,
                                   symbol<char*()>(library, "openblas_get_corename")());
  return result;
}

}  // namespace

const Blas& blas() {
  static const Blas instance = load();
  return instance;
}

void set_cpu_threads(int threads) {
  BRIGADE_CHECK(threads >= 1 && threads <= max_cpu_threads(),
                "threads: expected 1 to {}, which this OpenBLAS is built for, got {}",
                max_cpu_threads(), threads);
  blas().set_num_threads(threads);
  threads_set = threads;
}

int max_cpu_threads() {
  return blas().max_threads;
}

int cpu_threads() {
  return threads_set;
}

bool use_onednn() {
  return threads_set == 1 && onednn::available();
}

std::string blas_description() {
  return use_onednn() ? fmt::format("{} and {}", onednn::description(), blas().description)
                      : blas().description;
}

std::string f32_description() {
  constexpr std::int64_t kLeast = kLeastExtentInParts;
  if (const int parts = parts_of_floats(kLeast, kLeast); parts > 0) {
    return fmt::format("f32 products {} from {} x {} on",
                       parts == 1 ? "of bf16 factors" : "as three of bf16", kLeast, kLeast);
  }
  const std::string_view unit = onednn::bf16_unit();
  return fmt::format("f32 products as they are: {}", unit.empty() ? "no fast unit for bf16"
                                                     : !use_onednn()
                                                         ? fmt::format("{} needs --threads 1", unit)
                                                         : "three of bf16 would take longer");
}

std::string bf16_description() {
  const std::string_view unit = onednn::bf16_unit();
  return unit.empty()   ? "bf16 as f32: no fast unit for it"
         : use_onednn() ? fmt::format("bf16 by {}", unit)
                        : fmt::format("bf16 as f32: {} needs --threads 1", unit);
}

}  // namespace brigade
