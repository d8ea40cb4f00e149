#include <type_traits>

#include "core/arithmetic.h"
#include "core/cuda/fused_linear.h"
#include "core/cuda/kernel.cuh"

namespace brigade {

/// One kernel where cuBLASLt has it, else the product and a pass over its sums. GELU is always such
/// a pass: cuBLASLt's kernel with GELU and z (GELU_AUX_BIAS) has not been tried.
template <class T>
template <class F>
void CudaProducts<T>::linear(Stream& s, const LinearArgs<T, F>& args) {
  const bool gelu = args.activation == Activation::gelu;
  if constexpr (std::is_same_v<T, float>) {
    if (!gelu && cuda::fused_linear(s, args)) {
      return;
    }
  }
  gemm(s, args.product());
  const bool rectify = args.activation == Activation::relu;
  if (args.b == nullptr && args.activation == Activation::none) {
    return;
  }
  cuda::for_each(s, args.batch * args.out, [=] __device__(std::int64_t i) {
    const T sum = args.sums()[i];
    const T z = args.b == nullptr ? sum : sum + args.b[i % args.out];
    if (gelu) {
      args.z[i] = z;
      args.y[i] = unary_value<UnaryOp::gelu>(z);
    } else {
      args.y[i] = rectify ? unary_value<UnaryOp::relu>(z) : z;
    }
  });
}

template decltype(CudaProducts<float>::linear<float>) CudaProducts<float>::linear<float>;
template decltype(CudaProducts<float>::linear<BFloat16>) CudaProducts<float>::linear<BFloat16>;
template decltype(CudaProducts<double>::linear<double>) CudaProducts<double>::linear<double>;

}  // namespace brigade
