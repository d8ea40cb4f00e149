#pragma once

#include <cblas.h>

#include <string>

namespace brigade {

/// The functions we use of OpenBLAS, loaded by us instead of the linker.
///
/// OpenBLAS picks its kernels while it is being loaded, by the CPU's model. 0.3.21 picks AVX-512
/// kernels on AMD Zen 4, whose 512-bit units are two passes of 256 bits: its AVX2 ("Haswell")
/// kernels are 5 to 60 % faster there (1024 x 1024 layers, batch 128: forward 104 against 82
/// GFLOP/s, dW 107/94, dx 107/91). The choice is an environment variable read at load time, so we
/// set it first. The user's own OPENBLAS_CORETYPE wins.
struct Blas {
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&cblas_dgemm) dgemm = nullptr;
  void (*set_num_threads)(int) = nullptr;
  int max_threads = 1;
  std::string description;  ///< "OpenBLAS 0.3.21 (Haswell kernels)"
};

/// Loaded once per process; immutable afterwards. Throws Error when the library is missing.
const Blas& blas();

/// Whether most products of floats go to oneDNN instead: after set_cpu_threads(1), where available.
bool use_onednn();

}  // namespace brigade
