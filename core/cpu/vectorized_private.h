#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/config.h"
#include "core/cpu/features_private.h"
#include "core/kernel_args.h"

namespace brigade {

/// `loop`, inlined into a function that is compiled for 256-bit vectors.
template <class Loop>
BRIGADE_TARGET_AVX2 void with_avx2(const Loop& loop) {
  loop();
}

/// Runs `loop`, which is compiled twice: for 256-bit vectors, and for CPUs that have none. Both
/// give the same bits, because what includes this is compiled without fused multiply-add
/// (core/CMakeLists.txt). Not for 512 bits: these loops wait for memory.
template <class Loop>
void vectorized(const Loop& loop) {
  static const bool avx2 = cpu_has_avx2();
  if (avx2) {
    with_avx2(loop);
  } else {
    loop();
  }
}

/// dst = alpha value + beta dst; with beta = 0 the old value has no influence, not even as NaN.
template <class T>
void store(T value, Scale scale, T& dst) {
  const T alpha = static_cast<T>(scale.alpha);
  const T beta = static_cast<T>(scale.beta);
  dst = beta == T{0} ? alpha * value : alpha * value + beta * dst;
}

/// dst[i] = alpha value(i) + beta dst[i]; reads dst only when beta says so.
template <class T, class Value>
void write_scaled(std::int64_t n, Scale scale, T* dst, Value value) {
  const T alpha = static_cast<T>(scale.alpha);
  const T beta = static_cast<T>(scale.beta);
  vectorized([=] {
    if (beta == T{0}) {
      for (std::int64_t i = 0; i < n; ++i) {
        dst[i] = alpha * value(i);
      }
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        dst[i] = alpha * value(i) + beta * dst[i];
      }
    }
  });
}

/// Joins the numbers i < n, taken in turn, into eight results that begin as `start`. A single one
/// would wait four cycles for each addition, and could not be vectorised.
template <class T, class Join>
std::array<T, 8> in_lanes(std::int64_t n, T start, const Join& join) {
  constexpr std::int64_t kLanes = 8;
  std::array<T, kLanes> result;
  T* lanes = result.data();
  std::fill_n(lanes, kLanes, start);
  vectorized([&] {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = join(lanes[lane], i + lane);
      }
    }
    for (; i < n; ++i) {
      lanes[i % kLanes] = join(lanes[i % kLanes], i);
    }
  });
  return result;
}

/// Of n > 0 numbers. If one is NaN, perhaps NaN.
template <class T>
T largest_of(std::int64_t n, const T* x) {
  return std::ranges::max(in_lanes(
      n, x[0], [x](T largest, std::int64_t i) { return largest > x[i] ? largest : x[i]; }));
}

/// Σ term(i) over i < n
template <class Term>
double sum_of(std::int64_t n, const Term& term) {
  const auto [a, b, c, d, e, f, g, h] =
      in_lanes(n, 0.0, [&](double sum, std::int64_t i) { return sum + term(i); });
  return ((a + b) + (c + d)) + ((e + f) + (g + h));
}

/// put(c, Σ_r value(r, i)) for every column c, where i is the place of [r, c]. Walks row by row, as
/// a matrix lies in memory; the sums of a block of columns stay in the first-level cache meanwhile.
/// They are added up in double after so many rows: a long sum in T would lose small terms.
template <class T, class Value, class Put>
void sum_columns(std::int64_t rows, std::int64_t cols, const Value& value, const Put& put) {
  constexpr std::int64_t kCols = 256;
  constexpr std::int64_t kRows = 1024;
  for (std::int64_t first = 0; first < cols; first += kCols) {
    const std::int64_t count = std::min(kCols, cols - first);
    double totals[kCols] = {};
    for (std::int64_t begin = 0; begin < rows; begin += kRows) {
      const std::int64_t end = std::min(rows, begin + kRows);
      vectorized([&] {
        T sums[kCols] = {};
        for (std::int64_t row = begin; row < end; ++row) {
          for (std::int64_t i = 0; i < count; ++i) {
            sums[i] += value(row, row * cols + first + i);
          }
        }
        for (std::int64_t i = 0; i < count; ++i) {
          totals[i] += static_cast<double>(sums[i]);
        }
      });
    }
    for (std::int64_t i = 0; i < count; ++i) {
      put(first + i, static_cast<T>(totals[i]));
    }
  }
}

}  // namespace brigade
