#include "core/arithmetic.h"
#include "core/cuda/reduce.cuh"

namespace brigade {
namespace {

/// Each thread computes the factor: that is cheaper than a launch of its own, and the host, which
/// does not know the norm, does not wait for it.
template <class T>
__global__ void clip_kernel(std::int64_t n, const double* squares, double max_norm, T* x) {
  const double factor = max_norm / (sqrt(*squares) + 1e-6);
  if (factor >= 1.0) {
    return;
  }
  for (std::int64_t i = cuda::first_index(); i < n; i += cuda::index_stride()) {
    x[i] *= static_cast<T>(factor);
  }
}

}  // namespace

template <class T>
void CudaOptimizers<T>::sgd(Stream& s, std::int64_t n, SgdArgs args, const T* g, T* w,
                            T* velocity) {
  if (velocity == nullptr) {
    cuda::launch_packed(s, n, SgdStep<T>(args), g, w);
  } else {
    cuda::launch_packed(s, n, SgdStep<T>(args), g, w, velocity);
  }
}

template <class T>
void CudaOptimizers<T>::adam(Stream& s, std::int64_t n, AdamArgs args, const T* g, T* w, T* m,
                             T* v) {
  cuda::launch_packed(s, n, AdamStep<T>(args), g, w, m, v);
}

template <class T>
void CudaOptimizers<T>::add_squares(Stream& s, std::int64_t n, const T* x, double* sum) {
  const auto square = [=] __device__(std::int64_t i, std::int64_t /*j*/) {
    return static_cast<double>(x[i]) * static_cast<double>(x[i]);
  };
  cuda::sum_over(s, {.n = n}, square, {.alpha = 1.0, .beta = 1.0}, sum);
}

template <class T>
void CudaOptimizers<T>::clip(Stream& s, std::int64_t n, const double* squares, double max_norm,
                             T* x) {
  cuda::launch(s, cuda::blocks_for(n), clip_kernel<T>, n, squares, max_norm, x);
}

template struct CudaOptimizers<float>;
template struct CudaOptimizers<double>;

}  // namespace brigade
