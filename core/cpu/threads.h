#pragma once

#include <string>

namespace brigade {

/// How many threads one GEMM may use, for the whole process. Set it to the cores of this rank's
/// binding: the library's own default is all cores of the machine, for every rank.
void set_cpu_threads(int threads);

/// "OpenBLAS 0.3.21 (Haswell kernels)".
std::string blas_description();

}  // namespace brigade
