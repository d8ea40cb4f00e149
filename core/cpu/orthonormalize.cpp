#include <algorithm>
#include <cmath>

#include "core/kernels.h"

namespace brigade {
namespace {

/// Of a row's length: what is left when everything else has been subtracted, if not even this
/// much, is rounding.
constexpr double kNothing = 1e-6;

template <class T>
double dot(std::int64_t n, const T* a, const T* b) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

/// Subtracts from x its shares of the orthonormal rows, one after the other (the "modified" in
/// modified Gram-Schmidt), and scales what is left to length 1. False if nothing is left.
///
/// It does so twice: of a row almost in the others' span little is left, and rounding errors of the
/// first pass are large against that (Giraud, Langou & Rozložník, Comput. Math. Appl. 50, 2005).
template <class T>
bool make_orthonormal(std::int64_t rows, std::int64_t cols, const T* basis, T* x) {
  const double before = std::sqrt(dot(cols, x, x));
  for (int pass = 0; pass < 2; ++pass) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const T share = static_cast<T>(dot(cols, basis + row * cols, x));
      for (std::int64_t i = 0; i < cols; ++i) {
        x[i] -= share * basis[row * cols + i];
      }
    }
  }
  const double left = std::sqrt(dot(cols, x, x));
  if (left <= kNothing * before) {  // this way round NaN is something
    return false;
  }
  for (std::int64_t i = 0; i < cols; ++i) {
    x[i] = static_cast<T>(static_cast<double>(x[i]) / left);
  }
  return true;
}

}  // namespace

template <class T>
void CpuProducts<T>::orthonormalize(Stream& /*s*/, std::int64_t rows, std::int64_t cols, T* x) {
  for (std::int64_t row = 0; row < rows; ++row) {
    T* current = x + row * cols;
    // Of the first row + 1 basis vectors at least one lies outside the span of `row` rows.
    for (std::int64_t basis = 0; !make_orthonormal(row, cols, x, current) && basis <= row;
         ++basis) {
      std::fill(current, current + cols, T{0});
      current[basis] = T{1};
    }
  }
}

template decltype(CpuProducts<float>::orthonormalize) CpuProducts<float>::orthonormalize;
template decltype(CpuProducts<double>::orthonormalize) CpuProducts<double>::orthonormalize;

}  // namespace brigade
