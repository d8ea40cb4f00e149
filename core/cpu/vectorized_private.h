#pragma once

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

/// Σ term(i) over i < n, in eight sums taken in turn: one alone would wait four cycles for each
/// addition, and could not be vectorised.
template <class Term>
double sum_of(std::int64_t n, const Term& term) {
  constexpr std::int64_t kLanes = 8;
  double lanes[kLanes] = {};
  vectorized([&] {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] += term(i + lane);
      }
    }
    for (; i < n; ++i) {
      lanes[i % kLanes] += term(i);
    }
  });
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

}  // namespace brigade
