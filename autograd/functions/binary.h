#pragma once

#include "autograd/variable.h"

namespace brigade::autograd {

/// Arithmetic with broadcasting by NumPy's rule: aligned at the last dimension, two extents are
/// equal or one of them is 1, which is then repeated, as is a missing one: [N, C] + [C], or
/// [N, 1] * [1, C], which gives [N, C]. The gradient of an input that was repeated is the sum over
/// its repetitions. Throws Error for other shapes, and unless both are of one dtype on one device.
Variable add(const Variable& a, const Variable& b);
Variable sub(const Variable& a, const Variable& b);
Variable mul(const Variable& a, const Variable& b);
Variable div(const Variable& a, const Variable& b);

/// `value` as a constant scalar of the dtype and on the device of `x`.
Variable scalar_like(double value, const Variable& x);

inline Variable add(const Variable& a, double b) {
  return add(a, scalar_like(b, a));
}
inline Variable sub(const Variable& a, double b) {
  return sub(a, scalar_like(b, a));
}
inline Variable mul(const Variable& a, double b) {
  return mul(a, scalar_like(b, a));
}
inline Variable div(const Variable& a, double b) {
  return div(a, scalar_like(b, a));
}

inline Variable operator+(const Variable& a, const Variable& b) {
  return add(a, b);
}
inline Variable operator+(const Variable& a, double b) {
  return add(a, b);
}
inline Variable operator+(double a, const Variable& b) {
  return add(scalar_like(a, b), b);
}
inline Variable operator-(const Variable& a, const Variable& b) {
  return sub(a, b);
}
inline Variable operator-(const Variable& a, double b) {
  return sub(a, b);
}
inline Variable operator-(double a, const Variable& b) {
  return sub(scalar_like(a, b), b);
}
inline Variable operator*(const Variable& a, const Variable& b) {
  return mul(a, b);
}
inline Variable operator*(const Variable& a, double b) {
  return mul(a, b);
}
inline Variable operator*(double a, const Variable& b) {
  return mul(scalar_like(a, b), b);
}
inline Variable operator/(const Variable& a, const Variable& b) {
  return div(a, b);
}
inline Variable operator/(const Variable& a, double b) {
  return div(a, b);
}
inline Variable operator/(double a, const Variable& b) {
  return div(scalar_like(a, b), b);
}
inline Variable operator-(const Variable& x) {
  return mul(x, -1.0);
}

}  // namespace brigade::autograd
