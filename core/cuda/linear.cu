#include <type_traits>

#include "core/cuda/fused_linear.h"
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

}  // namespace

/// One kernel where cuBLASLt has it, else the product and a pass over y.
template <class T, class F>
void CudaKernels::linear(Stream& s, const LinearArgs<T, F>& args) {
  if constexpr (std::is_same_v<T, float>) {
    if (cuda::fused_linear(s, args)) {
      return;
    }
  }
  gemm(s, args.product());
  const std::int64_t n = args.batch * args.out;
  const bool rectify = args.activation == Activation::relu;
  if (args.b != nullptr) {
    cuda::launch(s, add_bias_kernel<T>, n, args.out, args.b, rectify, args.y);
  } else if (rectify) {
    unary(s, UnaryOp::relu, n, args.y, args.y);
  }
}

template void CudaKernels::linear(Stream&, const LinearArgs<float>&);
template void CudaKernels::linear(Stream&, const LinearArgs<double>&);
template void CudaKernels::linear(Stream&, const LinearArgs<float, BFloat16>&);

}  // namespace brigade
