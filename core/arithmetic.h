#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/kernel_args.h"

/// The formulas of the elementwise functions, once for both devices: nvcc compiles constexpr
/// functions for the GPU too (--expt-relaxed-constexpr in core/CMakeLists.txt).
namespace brigade {

/// Whether the derivative is computed from the function's output. Otherwise from its input.
constexpr bool keeps_output(UnaryOp op) {
  return op == UnaryOp::relu || op == UnaryOp::exp || op == UnaryOp::sqrt || op == UnaryOp::tanh ||
         op == UnaryOp::sigmoid;
}

/// eˣ for x <= 0, within 1 unit in the last place, in steps that a compiler turns into vectors:
/// eˣ = 2ⁿ eʳ with n the integer nearest to x / ln 2, and eʳ for |r| <= ln 2 / 2 from a polynomial
/// (Cephes, expf). Below e⁻⁸⁷, which is nothing beside a sum of at least 1: 0. NaN passes.
constexpr float exp_of(float x) {
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;  // few digits, so that n times it is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 · 2²³: added, it leaves the integer in the low bits
  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = x - n * kLn2High - n * kLn2Low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float power = p * r * r + r + 1.0F;
  // Adding n to a float's exponent multiplies it by 2ⁿ.
  const auto bits =
      std::bit_cast<std::uint32_t>(power) + (std::bit_cast<std::uint32_t>(shifted) << 23U);
  const float result = x < -87.0F ? 0.0F : std::bit_cast<float>(bits);
  return x == x ? result : x;
}

constexpr double exp_of(double x) {
  return std::exp(x);
}

/// gelu(x) = x σ(2u) with  u = √(2/π) (x + 0.044715 x³),  because σ(2u) = (1 + tanh u) / 2.
/// (arXiv:1606.08415, section 2)
template <class T>
inline constexpr T kGeluRoot = static_cast<T>(0.79788456080286535588);
template <class T>
inline constexpr T kGeluCubic = static_cast<T>(0.044715);

/// σ(2u), in steps that a compiler turns into vectors.
template <class T>
constexpr T gelu_gate(T x) {
  const T v = T{2} * kGeluRoot<T> * (x + kGeluCubic<T> * x * x * x);
  const T e = exp_of(v < T{0} ? v : -v);
  return (v < T{0} ? e : T{1}) / (T{1} + e);
}

/// op(x)
template <UnaryOp op, class T>
constexpr T unary_value(T x) {
  if constexpr (op == UnaryOp::relu) {
    return x < T{0} ? T{0} : x;  // this way round a NaN passes and shows in the loss
  } else if constexpr (op == UnaryOp::exp) {
    return std::exp(x);
  } else if constexpr (op == UnaryOp::log) {
    return std::log(x);
  } else if constexpr (op == UnaryOp::sqrt) {
    return std::sqrt(x);
  } else if constexpr (op == UnaryOp::square) {
    return x * x;
  } else if constexpr (op == UnaryOp::tanh) {
    return std::tanh(x);
  } else if constexpr (op == UnaryOp::sigmoid) {
    return T{1} / (T{1} + std::exp(-x));
  } else {
    static_assert(op == UnaryOp::gelu);
    return x * gelu_gate(x);
  }
}

/// op'(x), given the output y = op(x) if keeps_output(op), else x.
template <UnaryOp op, class T>
constexpr T unary_slope(T kept) {
  if constexpr (op == UnaryOp::exp) {
    return kept;
  } else if constexpr (op == UnaryOp::log) {
    return T{1} / kept;
  } else if constexpr (op == UnaryOp::sqrt) {
    return T{0.5} / kept;
  } else if constexpr (op == UnaryOp::square) {
    return T{2} * kept;
  } else if constexpr (op == UnaryOp::tanh) {
    return T{1} - kept * kept;
  } else if constexpr (op == UnaryOp::sigmoid) {
    return kept * (T{1} - kept);
  } else {
    static_assert(op == UnaryOp::gelu);
    const T gate = gelu_gate(kept);
    const T du = kGeluRoot<T> * (T{1} + T{3} * kGeluCubic<T> * kept * kept);
    return gate + T{2} * kept * gate * (T{1} - gate) * du;
  }
}

/// dy op'(x). relu: dy or 0, even if dy is infinite or NaN.
template <UnaryOp op, class T>
constexpr T unary_gradient(T dy, T kept) {
  if constexpr (op == UnaryOp::relu) {
    return kept > T{0} ? dy : T{0};
  } else {
    return dy * unary_slope<op>(kept);
  }
}

/// a op b
template <BinaryOp op, class T>
constexpr T binary_value(T a, T b) {
  if constexpr (op == BinaryOp::add) {
    return a + b;
  } else if constexpr (op == BinaryOp::sub) {
    return a - b;
  } else if constexpr (op == BinaryOp::mul) {
    return a * b;
  } else {
    static_assert(op == BinaryOp::div);
    return a / b;
  }
}

/// torch.optim.SGD for one weight (SgdArgs), with the numbers in the type of the weights.
template <class T>
struct SgdStep {
  T lr, momentum, weight_decay;
  bool nesterov;

  explicit SgdStep(const SgdArgs& args)
      : lr(static_cast<T>(args.lr)),
        momentum(static_cast<T>(args.momentum)),
        weight_decay(static_cast<T>(args.weight_decay)),
        nesterov(args.nesterov) {}

  constexpr void operator()(const T& g, T& w) const { w -= lr * (g + weight_decay * w); }

  constexpr void operator()(const T& g, T& w, T& velocity) const {
    const T gradient = g + weight_decay * w;
    velocity = momentum * velocity + gradient;
    w -= lr * (nesterov ? gradient + momentum * velocity : velocity);
  }
};

/// torch.optim.Adam for one weight (AdamArgs). Both bias corrections are computed once, in double:
/// m̂ / (√v̂ + eps) = m / c1 / (√v / √c2 + eps).
template <class T>
struct AdamStep {
  T step_size;     ///< lr / (1 - beta1^step)
  T inverse_root;  ///< 1 / √(1 - beta2^step)
  T shrink;        ///< 1 - lr weight_decay (AdamW), else 1
  T decay;         ///< weight decay that is added to the gradient (Adam), else 0
  T beta1, beta2;
  T rest1, rest2;  ///< 1 - beta, in double: 1 - 0.999f is wrong in the fifth digit
  T eps;

  explicit AdamStep(const AdamArgs& args)
      : step_size(static_cast<T>(args.lr / (1.0 - power(args.beta1, args.step)))),
        inverse_root(static_cast<T>(1.0 / std::sqrt(1.0 - power(args.beta2, args.step)))),
        shrink(static_cast<T>(args.decoupled ? 1.0 - args.lr * args.weight_decay : 1.0)),
        decay(static_cast<T>(args.decoupled ? 0.0 : args.weight_decay)),
        beta1(static_cast<T>(args.beta1)),
        beta2(static_cast<T>(args.beta2)),
        rest1(static_cast<T>(1.0 - args.beta1)),
        rest2(static_cast<T>(1.0 - args.beta2)),
        eps(static_cast<T>(args.eps)) {}

  constexpr void operator()(const T& g, T& w, T& m, T& v) const {
    const T gradient = g + decay * w;
    m = beta1 * m + rest1 * gradient;
    v = beta2 * v + rest2 * gradient * gradient;
    w = shrink * w - step_size * m / (std::sqrt(v) * inverse_root + eps);
  }

 private:
  static double power(double base, std::int64_t step) {
    return std::pow(base, static_cast<double>(step));
  }
};

/// fn.operator()<op>() for the one of `ops` that equals `op`.
template <auto... ops, class Op, class Fn>
void visit_one_of(Op op, const Fn& fn) {
  static_cast<void>(((op == ops && (fn.template operator()<ops>(), true)) || ...));
}

/// fn.operator()<op>(): the loop is compiled once per function, without a branch inside.
template <class Fn>
void visit(UnaryOp op, const Fn& fn) {
  using enum UnaryOp;
  visit_one_of<relu, exp, log, sqrt, square, tanh, sigmoid, gelu>(op, fn);
}
template <class Fn>
void visit(BinaryOp op, const Fn& fn) {
  using enum BinaryOp;
  visit_one_of<add, sub, mul, div>(op, fn);
}

}  // namespace brigade
