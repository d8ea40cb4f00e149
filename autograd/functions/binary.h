#pragma once

#include <optional>

#include "autograd/variable.h"

namespace brigade::autograd {

/// What arithmetic takes: a Variable or a number. A number becomes a constant scalar with the dtype
/// and the device of the other operand.
class Operand {
 public:
  // Implicit, so that `1 + x` and `x + y` are one function.
  // NOLINTBEGIN(google-explicit-constructor)
  Operand(const Variable& variable) : variable_(variable) {}
  Operand(double number) : number_(number) {}
  // NOLINTEND(google-explicit-constructor)

  /// Error in the name of function `who` if both are numbers.
  Variable beside(const char* who, const Operand& other) const;

 private:
  Variable variable_;
  std::optional<double> number_;  // else a variable
};

/// Arithmetic with broadcasting by NumPy's rule: aligned at the last dimension, two extents are
/// equal or one of them is 1, which is then repeated, as is a missing one: [N, C] + [C], or
/// [N, 1] * [1, C], which gives [N, C]. The gradient of an input that was repeated is the sum over
/// its repetitions. Throws Error for other shapes, and unless both are of one dtype on one device.
Variable add(const Operand& a, const Operand& b);
Variable sub(const Operand& a, const Operand& b);
Variable mul(const Operand& a, const Operand& b);
Variable div(const Operand& a, const Operand& b);

inline Variable operator+(const Operand& a, const Operand& b) {
  return add(a, b);
}
inline Variable operator-(const Operand& a, const Operand& b) {
  return sub(a, b);
}
inline Variable operator*(const Operand& a, const Operand& b) {
  return mul(a, b);
}
inline Variable operator/(const Operand& a, const Operand& b) {
  return div(a, b);
}
inline Variable operator-(const Variable& x) {
  return mul(x, -1.0);
}

}  // namespace brigade::autograd
