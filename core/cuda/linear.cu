#include <type_traits>

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

}  // namespace

/// One kernel where cuBLASLt has it, with or without the ReLU, else the product and a pass over y.
template <class T, class F>
void CudaKernels::linear(Stream& s, std::int64_t batch, std::int64_t in, std::int64_t out,
                         const F* x, const F* w, const T* b, Activation activation, T* y) {
  if constexpr (std::is_same_v<T, float>) {
    cuda::LinearArgs<F> args{.batch = batch,
                             .in = in,
                             .out = out,
                             .x = x,
                             .w = w,
                             .b = b,
                             .activation = activation,
                             .y = y};
    if (cuda::fused_linear(s, args)) {
      return;
    }
    args.activation = Activation::none;
    if (activation == Activation::relu && cuda::fused_linear(s, args)) {
      relu(s, batch * out, y, y);
      return;
    }
  }
  gemm<T, F>(s, {.transpose_a = false,
                 .transpose_b = true,
                 .m = batch,
                 .n = out,
                 .k = in,
                 .a = x,
                 .b = w,
                 .c = y,
                 .scale = {}});
  const bool relu_too = activation == Activation::relu;
  if (b != nullptr) {
    cuda::launch(s, add_bias_kernel<T>, batch * out, out, b, relu_too, y);
  } else if (relu_too) {
    relu(s, batch * out, y, y);
  }
}

/// One kernel where cuBLASLt has it, else the product and the sum.
template <class T>
void CudaKernels::linear_weight_backward(Stream& s, const WeightBackwardArgs<T>& args) {
  if constexpr (std::is_same_v<T, float>) {
    if (cuda::fused_weight_backward(s, args)) {
      return;
    }
  }
  gemm<T, T>(s, {.transpose_a = true,
                 .transpose_b = false,
                 .m = args.out,
                 .n = args.in,
                 .k = args.batch,
                 .a = args.dz,
                 .b = args.x,
                 .c = args.dw,
                 .scale = args.dw_scale});
  column_sum(s, args.batch, args.out, args.dz, args.db_scale, args.db);
}

template void CudaKernels::linear_weight_backward(Stream&, const WeightBackwardArgs<float>&);
template void CudaKernels::linear_weight_backward(Stream&, const WeightBackwardArgs<double>&);
template void CudaKernels::linear(Stream&, std::int64_t, std::int64_t, std::int64_t, const float*,
                                  const float*, const float*, Activation, float*);
template void CudaKernels::linear(Stream&, std::int64_t, std::int64_t, std::int64_t, const double*,
                                  const double*, const double*, Activation, double*);
template void CudaKernels::linear(Stream&, std::int64_t, std::int64_t, std::int64_t,
                                  const BFloat16*, const BFloat16*, const float*, Activation,
                                  float*);

}  // namespace brigade
