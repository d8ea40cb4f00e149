#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/random.h"
#include "core/shape.h"

namespace brigade {

/// How a result is stored: dst = alpha * result + beta * dst. With beta = 0 the
/// destination is never read, so it may hold anything (NaN included) and needs no zero-fill.
struct Scale {
  double alpha = 1.0;
  double beta = 0.0;

  /// Of factor * result.
  constexpr Scale times(double factor) const { return {.alpha = factor * alpha, .beta = beta}; }
};

/// Functions of one number (core/arithmetic.h).
enum class UnaryOp { relu, exp, log, sqrt, square, tanh, sigmoid, gelu };

/// Functions of two numbers (core/arithmetic.h).
enum class BinaryOp { add, sub, mul, div };

/// Two layouts of one index space: the element with index (i_0, i_1, ...) is at Σ i_d a_strides[d]
/// of the one and at Σ i_d b_strides[d] of the other. Strides count elements.
struct StridePair {
  std::size_t rank = 1;
  std::int64_t extents[Shape::kMaxRank] = {1, 1, 1, 1};
  std::int64_t a_strides[Shape::kMaxRank] = {};
  std::int64_t b_strides[Shape::kMaxRank] = {};

  constexpr std::int64_t numel() const { return extents[0] * extents[1] * extents[2] * extents[3]; }
};

/// A tensor seen as [outer, n, inner] by a reduction over n.
struct ReduceShape {
  std::int64_t outer = 1, n = 1, inner = 1;

  constexpr std::int64_t outputs() const { return outer * inner; }
};

/// C = alpha op(A) op(B) + beta C, row-major and contiguous.
///   op(A): [m, k]   op(B): [k, n]   C: [m, n]
/// Factors are F, sums T: the same type, or bf16 and f32.
template <class T, class F = T>
struct GemmArgs {
  bool transpose_a = false;  ///< A is stored [k, m]
  bool transpose_b = false;  ///< B is stored [n, k]
  std::int64_t m = 0, n = 0, k = 0;
  const F* a = nullptr;
  const F* b = nullptr;
  T* c = nullptr;
  Scale scale;
};

/// What linear does to its sums behind the bias. relu: max(z, 0), NaN stays NaN.
enum class Activation { none, relu, gelu };
constexpr UnaryOp function_of(Activation activation) {  // not of none
  return activation == Activation::relu ? UnaryOp::relu : UnaryOp::gelu;
}

/// y = activation(z), z = x Wᵀ + b.   x: [batch, in]   w: [out, in]   b: [out] or null
///   y: [batch, out]   z: the same for gelu, whose backward needs it; else null
/// Factors are F, sums T: the same type, or bf16 and f32.
template <class T, class F = T>
struct LinearArgs {
  std::int64_t batch = 0, in = 0, out = 0;
  const F* x = nullptr;
  const F* w = nullptr;
  const T* b = nullptr;
  Activation activation = Activation::none;
  T* y = nullptr;
  T* z = nullptr;

  /// Where x Wᵀ is added up.
  constexpr T* sums() const { return activation == Activation::gelu ? z : y; }
  GemmArgs<T, F> product() const {
    return {/*transpose_a=*/false,
            /*transpose_b=*/true,  batch, out, in, x, w, sums(), {}};
  }
};

/// One step of torch.optim.SGD: g += weight_decay w; v = momentum v + g, with zeros as the first v;
/// w -= lr (nesterov ? g + momentum v : v).
struct SgdArgs {
  double lr = 0.0, momentum = 0.0, weight_decay = 0.0;
  bool nesterov = false;
};

/// One step of torch.optim.Adam (decoupled = false) or AdamW (true). `step` counts from 1.
struct AdamArgs {
  double lr = 0.0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.0;
  bool decoupled = false;
  std::int64_t step = 1;
};

/// Element i is made from word i of `stream` (core/random.h).
struct UniformArgs {
  RandomStream stream = {};
  double low = 0.0, high = 1.0;
};

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
/// threshold() = p 2²⁴, rounded up. Integers, so that the CPU and the GPU drop the same elements.
struct DropoutArgs {
  RandomStream stream;
  double p = 0.0;  ///< in [0, 1)

  constexpr std::uint32_t threshold() const {
    const auto below = static_cast<std::uint32_t>(p * 0x1p24);
    return below < p * 0x1p24 ? below + 1 : below;
  }
};

/// Causal self-attention, for each of `batch` sequences and each head alone:
///   y_i = Σ_j p_ij v_j   p_ij = exp(q_i · k_j / √width - log_sum_i)   over the positions j <= i
///   log_sum_i = log Σ_j exp(q_i · k_j / √width)
/// `dropout`: in y_i some p_ij become 0 and the others are divided by 1 - dropout.p. DropoutArgs'
/// element is the place of [sequence, head, i, j] in [batch, heads, length, length].
///   qkv: [batch, length, 3, heads, width], q before k before v   y: [batch, length, heads, width]
///   log_sums: [batch, heads, length], from which backward computes p again
template <class T>
struct AttentionArgs {
  std::int64_t batch = 0, length = 0, heads = 0, width = 0;
  const T* qkv = nullptr;
  T* y = nullptr;
  T* log_sums = nullptr;
  DropoutArgs dropout;

  constexpr double score_scale() const { return 1.0 / std::sqrt(static_cast<double>(width)); }
};

}  // namespace brigade
