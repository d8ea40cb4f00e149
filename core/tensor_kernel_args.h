#pragma once

#include <cmath>
#include <cstdint>

#include "core/random.h"

/// Arguments of the kernels behind reshaping, embedding, layer_norm and dropout (core/kernels.h).
namespace brigade {

/// indices: [count]   w: [vocabulary, width]   y: [count, width]
struct EmbeddingSize {
  std::int64_t count = 0, vocabulary = 0, width = 0;
};

/// For each row of x, with its mean m and its variance v (divisor cols):
///   rstd = 1 / √(v + eps)   y = (x - m) rstd weight + bias
///   x, y: [rows, cols]   weight, bias: [cols] or null (1 and 0)   mean, rstd: [rows]
template <class T>
struct LayerNormArgs {
  std::int64_t rows = 0, cols = 0;
  const T* x = nullptr;
  const T* weight = nullptr;
  const T* bias = nullptr;
  double eps = 0.0;
  T* y = nullptr;
  T* mean = nullptr;
  T* rstd = nullptr;
};

/// What the gradients of layer_norm are computed from.   dy: [rows, cols]; the rest as above
template <class T>
struct LayerNormBackwardArgs {
  std::int64_t rows = 0, cols = 0;
  const T* dy = nullptr;
  const T* x = nullptr;
  const T* weight = nullptr;
  const T* mean = nullptr;
  const T* rstd = nullptr;
};

/// Element i is dropped if the upper 24 bits of word i of `stream` (core/random.h) are below
/// threshold(). Integers, so that the CPU and the GPU drop the same elements.
struct DropoutArgs {
  RandomStream stream;
  double p = 0.0;  ///< in [0, 1)

  std::uint32_t threshold() const { return static_cast<std::uint32_t>(std::ceil(p * 0x1p24)); }
};

}  // namespace brigade
