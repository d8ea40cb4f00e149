#include <cmath>

#include "core/arithmetic.h"
#include "core/cpu/vectorized_private.h"
#include "core/kernels.h"

namespace brigade {
namespace {

/// step(arrays[i]...) for i < n.
template <class Step, class... T>
void for_each_weight(std::int64_t n, const Step& step, T*... arrays) {
  vectorized([=] {
    for (std::int64_t i = 0; i < n; ++i) {
      step(arrays[i]...);
    }
  });
}

}  // namespace

template <class T>
void CpuOptimizers<T>::sgd(Stream& /*s*/, std::int64_t n, SgdArgs args, const T* g, T* w,
                           T* velocity) {
  if (velocity == nullptr) {
    for_each_weight(n, SgdStep<T>(args), g, w);
  } else {
    for_each_weight(n, SgdStep<T>(args), g, w, velocity);
  }
}

template <class T>
void CpuOptimizers<T>::adam(Stream& /*s*/, std::int64_t n, AdamArgs args, const T* g, T* w, T* m,
                            T* v) {
  for_each_weight(n, AdamStep<T>(args), g, w, m, v);
}

template <class T>
void CpuOptimizers<T>::add_squares(Stream& /*s*/, std::int64_t n, const T* x, double* sum) {
  // double: the squares of millions of small gradients would get lost
  *sum += sum_of(n, [=](std::int64_t i) {
    const auto value = static_cast<double>(x[i]);
    return value * value;
  });
}

template <class T>
void CpuOptimizers<T>::clip(Stream& /*s*/, std::int64_t n, const double* squares, double max_norm,
                            T* x) {
  const double factor = max_norm / (std::sqrt(*squares) + 1e-6);
  if (!(factor >= 1.0)) {  // this way round NaN passes
    for_each_weight(
        n, [f = static_cast<T>(factor)](T& value) { value *= f; }, x);
  }
}

template struct CpuOptimizers<float>;
template struct CpuOptimizers<double>;

}  // namespace brigade
