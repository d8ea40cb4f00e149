#include <type_traits>

#include "core/cuda/fused_linear.h"
#include "core/cuda/kernel.cuh"

namespace brigade {

/// One kernel where cuBLASLt has it, else the product and a pass over y.
template <class T>
template <class F>
void CudaProducts<T>::linear(Stream& s, const LinearArgs<T, F>& args) {
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

template decltype(CudaProducts<float>::linear<float>) CudaProducts<float>::linear<float>;
template decltype(CudaProducts<float>::linear<BFloat16>) CudaProducts<float>::linear<BFloat16>;
template decltype(CudaProducts<double>::linear<double>) CudaProducts<double>::linear<double>;

}  // namespace brigade
