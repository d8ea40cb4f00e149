#pragma once

#include <cublas_v2.h>

#include <cstdint>
#include <vector>

/// Column-major products on the thread of a stream, for cuBLAS and cuBLASLt.
namespace emulator {

struct Factor {
  const void* values;
  cudaDataType_t type;  ///< CUDA_R_32F, CUDA_R_64F or CUDA_R_16BF
  cublasOperation_t op;
  std::int64_t rows, cols, leading;  ///< as it lies in memory
};

/// f32 or bf16 numbers as f32, rounded to what `precision` multiplies: to TF32 or bf16, or not.
std::vector<float> widened(const Factor& factor, cublasComputeType_t precision);

/// d = alpha op(a) op(b) + beta d;   d: [m, n]
struct Product {
  Factor a, b;
  std::int64_t m, n, k;
  double alpha, beta;
  void* d;
  std::int64_t leading;
  cublasComputeType_t precision;

  /// Whether everything is memory of the GPU and large enough.
  bool valid() const;
  /// Now, on this thread.
  void compute() const;
};

}  // namespace emulator
