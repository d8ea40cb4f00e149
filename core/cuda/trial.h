#pragma once

// Private to core/cuda.
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/cuda/cublaslt.h"
#include "core/half.h"
#include "core/tensor.h"

/// For trials of cuBLASLt's kernels, which make sure that one means what we mean.
namespace brigade::cuda {

/// Of float or BFloat16. A trial's memory is no part of a step: hold a UseLastingMemory.
template <class F>
Tensor full_of_nan(Stream& s, const Shape& shape) {
  Tensor x = Tensor::empty(shape, kDTypeOf<F>, s.device());
  CUDA_CHECK(cudaMemsetAsync(x.bytes(), 0xff, x.nbytes(), stream_of(s)));
  return x;
}

template <class F>
Tensor full_of_ones(const Shape& shape, Device device) {
  constexpr float kOne = 1.0F;
  F one{};
  if constexpr (std::is_same_v<F, BFloat16>) {
    one = to_bfloat16(kOne);
  } else {
    one = kOne;
  }
  return Tensor::from(std::vector<F>(static_cast<std::size_t>(shape.numel()), one), shape, device);
}

/// Whether fits(value, bit) for each of `values` [rows, cols] and its bit in `mask` (mask_bytes),
/// both on the GPU. Waits for `s`.
template <class Fits>
bool mask_fits(Stream& s, std::int64_t rows, std::int64_t cols, const float* values,
               const std::uint8_t* mask, const Fits& fits) {
  const std::int64_t stride = mask_bytes(cols);
  std::vector<float> all(static_cast<std::size_t>(rows * cols));
  std::vector<std::uint8_t> bits(static_cast<std::size_t>(rows * stride));
  CudaKernels::copy_to_host(s, all.data(), values, all.size() * sizeof(float));
  CudaKernels::copy_to_host(s, bits.data(), mask, bits.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      const unsigned byte = bits[static_cast<std::size_t>(row * stride + col / 8)];
      if (!fits(all[static_cast<std::size_t>(row * cols + col)], (byte >> (col % 8) & 1U) == 1U)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace brigade::cuda
