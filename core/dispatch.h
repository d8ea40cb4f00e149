#pragma once

#include <type_traits>
#include <utility>

#include "core/config.h"
#include "core/device.h"
#include "core/error.h"
#include "core/kernels.h"

namespace brigade {

/// The one place that chooses between CPU and GPU: calls `fn` with CpuKernels{} or CudaKernels{}.
///
///   dispatch(x.device(), [&]<class K>(K) { K::narrow(stream, n, x, y); });
///
/// A build without CUDA drops the second call, but the static_assert still compiles it: a kernel
/// that is missing on one side is a compile error on a laptop, not a surprise on the cluster.
template <class Fn>
decltype(auto) dispatch(Device device, Fn&& fn) {
  static_assert(std::is_invocable_v<Fn, CpuKernels> && std::is_invocable_v<Fn, CudaKernels>,
                "the callable must accept both kernel sets");
  if constexpr (kHasCuda) {
    if (device.is_cuda()) {
      return std::forward<Fn>(fn)(CudaKernels{});
    }
  }
  BRIGADE_CHECK(!device.is_cuda(), "dispatch: {} asked of a build without CUDA; use --device cpu",
                device);
  return std::forward<Fn>(fn)(CpuKernels{});
}

}  // namespace brigade
