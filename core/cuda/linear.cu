#include <type_traits>

#include "core/cuda/fused_input_backward.h"
#include "core/cuda/fused_linear.h"
#include "core/cuda/fused_weight_backward.h"
#include "core/cuda/kernel.cuh"

namespace brigade {
namespace {

/// y[r, c] += b[c], then ReLU where asked for   y: [n / out, out]
template <class T>
__global__ void add_bias_kernel(std::int64_t n, std::int64_t out, const T* b, bool relu, T* y) {
  for (std::int64_t i = cuda::first_index(); i < n; i += cuda::index_stride()) {
    const T z = y[i] + b[i % out];
    y[i] = relu && z < T{0} ? T{0} : z;  // NaN stays NaN
  }
}

/// kLanes neighbours, which one thread reads and writes at a time.
template <std::int64_t kLanes>
struct alignas(kLanes * sizeof(float)) Lanes {
  float at[kLanes];
};

/// y[r, c] = max(y[r, c] + b[c], 0) and its mask, of which a thread has one byte: eight neighbours.
///   b: [out] or null   y: [n / stride, out], out a multiple of kLanes   mask: [n / stride, stride]
template <std::int64_t kLanes>
__global__ void relu_mask_kernel(std::int64_t n, std::int64_t stride, std::int64_t out,
                                 const float* b, float* y, std::uint8_t* mask) {
  for (std::int64_t i = cuda::first_index(); i < n; i += cuda::index_stride()) {
    const std::int64_t row = i / stride;
    const std::int64_t first = (i - row * stride) * 8;
    unsigned bits = 0;
    for (std::int64_t col = first; col < first + 8 && col < out; col += kLanes) {
      auto* const place = reinterpret_cast<Lanes<kLanes>*>(&y[row * out + col]);
      Lanes<kLanes> z = *place;
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        const float sum = b == nullptr ? z.at[lane] : z.at[lane] + b[col + lane];
        bits |= static_cast<unsigned>(sum > 0.0F) << (col - first + lane);
        z.at[lane] = sum < 0.0F ? 0.0F : sum;  // NaN stays NaN
      }
      *place = z;
    }
    mask[i] = static_cast<std::uint8_t>(bits);
  }
}

void relu_mask(Stream& s, std::int64_t rows, std::int64_t out, const float* b, float* y,
               std::uint8_t* mask) {
  const std::int64_t stride = mask_bytes(out);
  const bool aligned = out % 4 == 0 && reinterpret_cast<std::uintptr_t>(y) % sizeof(Lanes<4>) == 0;
  cuda::launch(s, aligned ? relu_mask_kernel<4> : relu_mask_kernel<1>, rows * stride, stride, out,
               b, y, mask);
}

/// Of `args`, with x Wᵀ in y: adds b (null: it is there already or there is none), then activates.
template <class T, class F>
void finish(Stream& s, const LinearArgs<T, F>& args, const T* b) {
  const std::int64_t n = args.batch * args.out;
  const bool relu = args.activation == Activation::relu;
  if constexpr (std::is_same_v<T, float>) {
    if (args.mask != nullptr) {
      relu_mask(s, args.batch, args.out, b, args.y, args.mask);
      return;
    }
  }
  if (b != nullptr) {
    cuda::launch(s, add_bias_kernel<T>, n, args.out, b, relu, args.y);
  } else if (relu) {
    CudaKernels::relu(s, n, args.y, args.y);
  }
}

}  // namespace

/// One kernel where cuBLASLt has it, with or without the ReLU, else the product and a pass over y.
template <class T, class F>
void CudaKernels::linear(Stream& s, const LinearArgs<T, F>& args) {
  if constexpr (std::is_same_v<T, float>) {
    if (cuda::fused_linear(s, args)) {
      return;
    }
    LinearArgs<T, F> sums = args;
    sums.activation = Activation::none;
    sums.mask = nullptr;
    if (args.activation == Activation::relu && cuda::fused_linear(s, sums)) {
      finish<T, F>(s, args, nullptr);
      return;
    }
  }
  gemm(s, args.product());
  finish(s, args, args.b);
}

/// One kernel where cuBLASLt has it, else the product and a pass over dx.
template <class T, class F>
void CudaKernels::linear_input_backward(Stream& s, const InputBackwardArgs<T, F>& args) {
  if constexpr (std::is_same_v<T, float>) {
    if (cuda::fused_input_backward(s, args)) {
      return;
    }
  }
  gemm(s, args.product());
  relu_backward(s, args.batch * args.in, args.dx, args.x, {}, args.dx);
}

/// One kernel where cuBLASLt has it, else the product and the sum.
template <class T>
void CudaKernels::linear_weight_backward(Stream& s, const WeightBackwardArgs<T>& args) {
  if constexpr (std::is_same_v<T, float>) {
    if (cuda::fused_weight_backward(s, args)) {
      return;
    }
  }
  gemm(s, args.product());
  column_sum(s, args.batch, args.out, args.dz, args.db_scale, args.db);
}

template void CudaKernels::linear_weight_backward(Stream&, const WeightBackwardArgs<float>&);
template void CudaKernels::linear_weight_backward(Stream&, const WeightBackwardArgs<double>&);
template void CudaKernels::linear(Stream&, const LinearArgs<float>&);
template void CudaKernels::linear(Stream&, const LinearArgs<double>&);
template void CudaKernels::linear(Stream&, const LinearArgs<float, BFloat16>&);
template void CudaKernels::linear_input_backward(Stream&, const InputBackwardArgs<float>&);
template void CudaKernels::linear_input_backward(Stream&, const InputBackwardArgs<double>&);
template void CudaKernels::linear_input_backward(Stream&,
                                                 const InputBackwardArgs<float, BFloat16>&);

}  // namespace brigade
