#include <type_traits>

#include "core/cuda/fused_linear.h"
#include "core/cuda/kernel.cuh"

namespace brigade {

/// One kernel where cuBLASLt has it, else the product and a pass over y.
template <class T, class F>
void CudaKernels::linear(Stream& s, const LinearArgs<T, F>& args) {
  if constexpr (std::is_same_v<T, float>) {
    if (cuda::fused_linear(s, args)) {
      return;
    }
  }
  gemm(s, args.product());
  const bool rectify = args.activation == Activation::relu;
  if (args.b == nullptr && !rectify) {
    return;
  }
  cuda::for_each(s, args.batch * args.out, [=] __device__(std::int64_t i) {
    const T z = args.b == nullptr ? args.y[i] : args.y[i] + args.b[i % args.out];
    args.y[i] = rectify && z < T{0} ? T{0} : z;  // NaN stays NaN
  });
}

template decltype(CudaKernels::linear<float>) CudaKernels::linear<float>;
template decltype(CudaKernels::linear<double>) CudaKernels::linear<double>;
template decltype(CudaKernels::linear<float, BFloat16>) CudaKernels::linear<float, BFloat16>;

}  // namespace brigade
