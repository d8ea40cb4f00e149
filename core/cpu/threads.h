#pragma once

#include <string>

namespace brigade {

/// How many threads one GEMM may use, for the whole process. Set it to the cores of this rank's
/// binding: the library's own default is all cores of the machine, for every rank. Throws Error
/// below 1 and above max_cpu_threads().
void set_cpu_threads(int threads);
int cpu_threads();      ///< as set; 0 before that: the library's own default
int max_cpu_threads();  ///< what the library is built for

/// "OpenBLAS 0.3.21 (Haswell kernels)", with one thread maybe "oneDNN 2.6.3 and OpenBLAS ...".
std::string blas_description();
/// What this thread's MatmulPrecision makes of f32 products:
/// "f32 products of bf16 factors from 32 x 32 on".
std::string f32_description();
/// What multiplies factors of bf16: "bf16 by AVX512_BF16", or "bf16 as f32" and why.
std::string bf16_description();

}  // namespace brigade
