#include <cmath>

#include "core/cuda/kernel.cuh"

namespace brigade {
namespace {

/// SgdArgs with the numbers in the type of the weights, and one weight's step.
template <class T>
struct SgdStep {
  T lr, momentum, weight_decay;
  bool nesterov, first_step;

  __device__ void operator()(const T& g, T& w) const { w -= lr * (g + weight_decay * w); }

  __device__ void operator()(const T& g, T& w, T& velocity) const {
    const T gradient = g + weight_decay * w;
    // In the first step the velocity is only written: its memory may hold anything.
    velocity = first_step ? gradient : momentum * velocity + gradient;
    w -= lr * (nesterov ? gradient + momentum * velocity : velocity);
  }
};

/// AdamArgs with the numbers in the type of the weights, and one weight's step. The host computes
/// both bias corrections, in double.
template <class T>
struct AdamStep {
  T step_size;     ///< lr / (1 - beta1^step)
  T inverse_root;  ///< 1 / √(1 - beta2^step)
  T shrink;        ///< 1 - lr weight_decay (AdamW), else 1
  T decay;         ///< weight decay that is added to the gradient (Adam), else 0
  T beta1, beta2;
  T rest1, rest2;  ///< 1 - beta1, 1 - beta2
  T eps;

  __device__ void operator()(const T& g, T& w, T& m, T& v) const {
    const T gradient = g + decay * w;
    m = beta1 * m + rest1 * gradient;
    v = beta2 * v + rest2 * gradient * gradient;
    w = shrink * w - step_size * m / (sqrt(v) * inverse_root + eps);
  }
};

template <class T>
AdamStep<T> adam_step(const AdamArgs& args) {
  const auto t = [](double value) { return static_cast<T>(value); };
  const auto step = static_cast<double>(args.step);
  return {.step_size = t(args.lr / (1.0 - std::pow(args.beta1, step))),
          .inverse_root = t(1.0 / std::sqrt(1.0 - std::pow(args.beta2, step))),
          .shrink = t(args.decoupled ? 1.0 - args.lr * args.weight_decay : 1.0),
          .decay = t(args.decoupled ? 0.0 : args.weight_decay),
          .beta1 = t(args.beta1),
          .beta2 = t(args.beta2),
          .rest1 = t(1.0 - args.beta1),
          .rest2 = t(1.0 - args.beta2),
          .eps = t(args.eps)};
}

}  // namespace

template <class T>
void CudaKernels::sgd(Stream& s, std::int64_t n, SgdArgs args, const T* g, T* w, T* velocity) {
  const SgdStep<T> step{.lr = static_cast<T>(args.lr),
                        .momentum = static_cast<T>(args.momentum),
                        .weight_decay = static_cast<T>(args.weight_decay),
                        .nesterov = args.nesterov,
                        .first_step = args.first_step};
  if (velocity == nullptr) {
    cuda::launch_packed(s, n, step, g, w);
  } else {
    cuda::launch_packed(s, n, step, g, w, velocity);
  }
}

template <class T>
void CudaKernels::adam(Stream& s, std::int64_t n, AdamArgs args, const T* g, T* w, T* m, T* v) {
  cuda::launch_packed(s, n, adam_step<T>(args), g, w, m, v);
}

template decltype(CudaKernels::sgd<float>) CudaKernels::sgd<float>;
template decltype(CudaKernels::sgd<double>) CudaKernels::sgd<double>;
template decltype(CudaKernels::adam<float>) CudaKernels::adam<float>;
template decltype(CudaKernels::adam<double>) CudaKernels::adam<double>;

}  // namespace brigade
