#pragma once

#include <cmath>

#include "core/kernel_args.h"

/// The formulas of the elementwise functions, once for both devices: nvcc compiles constexpr
/// functions for the GPU too (--expt-relaxed-constexpr in core/CMakeLists.txt).
namespace brigade {

/// Whether the derivative is computed from the function's output. Otherwise from its input.
constexpr bool keeps_output(UnaryOp op) {
  return op == UnaryOp::relu || op == UnaryOp::exp || op == UnaryOp::sqrt || op == UnaryOp::tanh ||
         op == UnaryOp::sigmoid;
}

/// The argument of tanh in gelu:  u = √(2/π) (x + 0.044715 x³).   (arXiv:1606.08415, section 2)
template <class T>
inline constexpr T kGeluRoot = static_cast<T>(0.79788456080286535588);
template <class T>
inline constexpr T kGeluCubic = static_cast<T>(0.044715);

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
    const T u = kGeluRoot<T> * (x + kGeluCubic<T> * x * x * x);
    return T{0.5} * x * (T{1} + std::tanh(u));
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
    const T t = std::tanh(kGeluRoot<T> * (kept + kGeluCubic<T> * kept * kept * kept));
    const T du = kGeluRoot<T> * (T{1} + T{3} * kGeluCubic<T> * kept * kept);
    return T{0.5} * (T{1} + t) + T{0.5} * kept * (T{1} - t * t) * du;
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

/// fn.operator()<op>(): the loop is compiled once per function, without a branch inside.
template <class Fn>
void visit(UnaryOp op, const Fn& fn) {
  switch (op) {
    case UnaryOp::relu:
      return fn.template operator()<UnaryOp::relu>();
    case UnaryOp::exp:
      return fn.template operator()<UnaryOp::exp>();
    case UnaryOp::log:
      return fn.template operator()<UnaryOp::log>();
    case UnaryOp::sqrt:
      return fn.template operator()<UnaryOp::sqrt>();
    case UnaryOp::square:
      return fn.template operator()<UnaryOp::square>();
    case UnaryOp::tanh:
      return fn.template operator()<UnaryOp::tanh>();
    case UnaryOp::sigmoid:
      return fn.template operator()<UnaryOp::sigmoid>();
    case UnaryOp::gelu:
      return fn.template operator()<UnaryOp::gelu>();
  }
}

template <class Fn>
void visit(BinaryOp op, const Fn& fn) {
  switch (op) {
    case BinaryOp::add:
      return fn.template operator()<BinaryOp::add>();
    case BinaryOp::sub:
      return fn.template operator()<BinaryOp::sub>();
    case BinaryOp::mul:
      return fn.template operator()<BinaryOp::mul>();
    case BinaryOp::div:
      return fn.template operator()<BinaryOp::div>();
  }
}

}  // namespace brigade
