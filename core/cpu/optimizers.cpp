#include <cmath>

#include "core/cpu/vectorized_private.h"
#include "core/kernels.h"

namespace brigade {

template <class T>
void CpuKernels::sgd(Stream& /*s*/, std::int64_t n, SgdArgs args, const T* g, T* w, T* velocity) {
  const T lr = static_cast<T>(args.lr);
  const T decay = static_cast<T>(args.weight_decay);
  if (velocity == nullptr) {
    vectorized([=] {
      for (std::int64_t i = 0; i < n; ++i) {
        w[i] -= lr * (g[i] + decay * w[i]);
      }
    });
    return;
  }
  const T momentum = static_cast<T>(args.momentum);
  const bool nesterov = args.nesterov;
  const bool first_step = args.first_step;
  vectorized([=] {
    for (std::int64_t i = 0; i < n; ++i) {
      const T gradient = g[i] + decay * w[i];
      const T older = velocity[i];
      velocity[i] = first_step ? gradient : momentum * older + gradient;
      w[i] -= lr * (nesterov ? gradient + momentum * velocity[i] : velocity[i]);
    }
  });
}

template <class T>
void CpuKernels::adam(Stream& /*s*/, std::int64_t n, AdamArgs args, const T* g, T* w, T* m, T* v) {
  const auto step = static_cast<double>(args.step);
  // Both bias corrections are moved out of the loop: m̂ / (√v̂ + eps) = m / c1 / (√v / √c2 + eps).
  const double correction1 = 1.0 - std::pow(args.beta1, step);
  const T inverse_root2 = static_cast<T>(1.0 / std::sqrt(1.0 - std::pow(args.beta2, step)));
  const T step_size = static_cast<T>(args.lr / correction1);
  const T beta1 = static_cast<T>(args.beta1);
  const T beta2 = static_cast<T>(args.beta2);
  const T rest1 =
      static_cast<T>(1.0 - args.beta1);  // in double: 1 - 0.999f is wrong in the fifth digit
  const T rest2 = static_cast<T>(1.0 - args.beta2);
  const T eps = static_cast<T>(args.eps);
  const T coupled = static_cast<T>(args.decoupled ? 0.0 : args.weight_decay);
  const T shrink = static_cast<T>(args.decoupled ? 1.0 - args.lr * args.weight_decay : 1.0);
  vectorized([=] {
    for (std::int64_t i = 0; i < n; ++i) {
      const T gradient = g[i] + coupled * w[i];
      m[i] = beta1 * m[i] + rest1 * gradient;
      v[i] = beta2 * v[i] + rest2 * gradient * gradient;
      w[i] = shrink * w[i] - step_size * m[i] / (std::sqrt(v[i]) * inverse_root2 + eps);
    }
  });
}

template decltype(CpuKernels::sgd<float>) CpuKernels::sgd<float>;
template decltype(CpuKernels::sgd<double>) CpuKernels::sgd<double>;
template decltype(CpuKernels::adam<float>) CpuKernels::adam<float>;
template decltype(CpuKernels::adam<double>) CpuKernels::adam<double>;

}  // namespace brigade
