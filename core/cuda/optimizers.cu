#include <cmath>

#include "core/cuda/kernel.cuh"

namespace brigade {
namespace {

/// SgdArgs with the numbers in the type of the weights.
template <class T>
struct SgdNumbers {
  T lr, momentum, weight_decay;
  bool nesterov, first_step;
};

template <class T>
__global__ void sgd_kernel(std::int64_t n, SgdNumbers<T> args, const T* g, T* w, T* velocity) {
  for (std::int64_t i = cuda::first_index(); i < n; i += cuda::index_stride()) {
    const T gradient = g[i] + args.weight_decay * w[i];
    T step = gradient;
    if (velocity != nullptr) {
      // In the first step the velocity is only written: its memory may hold anything.
      const T v = args.first_step ? gradient : args.momentum * velocity[i] + gradient;
      velocity[i] = v;
      step = args.nesterov ? gradient + args.momentum * v : v;
    }
    w[i] -= args.lr * step;
  }
}

/// What AdamArgs means for one element, worked out once on the host in double.
template <class T>
struct AdamNumbers {
  T shrink;  ///< 1 - lr weight_decay (AdamW), else 1
  T decay;   ///< weight decay that is added to the gradient (Adam), else 0
  T beta1, beta2;
  T rest1, rest2;  ///< 1 - beta1, 1 - beta2
  T step_size;     ///< lr / (1 - beta1^step)
  T root;          ///< √(1 - beta2^step)
  T eps;
};

template <class T>
AdamNumbers<T> numbers(const AdamArgs& args) {
  const auto step = static_cast<double>(args.step);
  const auto t = [](double value) { return static_cast<T>(value); };
  return {.shrink = t(args.decoupled ? 1.0 - args.lr * args.weight_decay : 1.0),
          .decay = t(args.decoupled ? 0.0 : args.weight_decay),
          .beta1 = t(args.beta1),
          .beta2 = t(args.beta2),
          .rest1 = t(1.0 - args.beta1),
          .rest2 = t(1.0 - args.beta2),
          .step_size = t(args.lr / (1.0 - std::pow(args.beta1, step))),
          .root = t(std::sqrt(1.0 - std::pow(args.beta2, step))),
          .eps = t(args.eps)};
}

template <class T>
__global__ void adam_kernel(std::int64_t n, AdamNumbers<T> args, const T* g, T* w, T* m, T* v) {
  for (std::int64_t i = cuda::first_index(); i < n; i += cuda::index_stride()) {
    const T weight = args.shrink * w[i];
    const T gradient = g[i] + args.decay * weight;
    m[i] = args.beta1 * m[i] + args.rest1 * gradient;
    v[i] = args.beta2 * v[i] + args.rest2 * gradient * gradient;
    w[i] = weight - args.step_size * m[i] / (sqrt(v[i]) / args.root + args.eps);
  }
}

}  // namespace

template <class T>
void CudaKernels::sgd(Stream& s, std::int64_t n, SgdArgs args, const T* g, T* w, T* velocity) {
  const SgdNumbers<T> numbers{.lr = static_cast<T>(args.lr),
                              .momentum = static_cast<T>(args.momentum),
                              .weight_decay = static_cast<T>(args.weight_decay),
                              .nesterov = args.nesterov,
                              .first_step = args.first_step};
  cuda::launch(s, sgd_kernel<T>, n, numbers, g, w, velocity);
}

template <class T>
void CudaKernels::adam(Stream& s, std::int64_t n, AdamArgs args, const T* g, T* w, T* m, T* v) {
  cuda::launch(s, adam_kernel<T>, n, numbers<T>(args), g, w, m, v);
}

template void CudaKernels::sgd(Stream&, std::int64_t, SgdArgs, const float*, float*, float*);
template void CudaKernels::sgd(Stream&, std::int64_t, SgdArgs, const double*, double*, double*);
template void CudaKernels::adam(Stream&, std::int64_t, AdamArgs, const float*, float*, float*,
                                float*);
template void CudaKernels::adam(Stream&, std::int64_t, AdamArgs, const double*, double*, double*,
                                double*);

}  // namespace brigade
