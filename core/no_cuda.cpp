// Stands in for core/cuda/ in builds without CUDA. Nothing else of it is needed: `if constexpr
// (kHasCuda)` drops every other call.
#include "core/device.h"
#include "core/error.h"
#include "core/runtime/pinned.h"

namespace brigade {

CudaInfo cuda_info() {
  return {.device_count = 0,
          .why_not = "this build has no CUDA (BRIGADE_CUDA=OFF or no nvcc)",
          .runtime = ""};
}

GpuIdentity gpu_identity(int index) {
  throw Error(fmt::format("gpu {} asked of a build without CUDA", index));
}

Tensor empty_pinned(const Shape& /*shape*/, DType /*dtype*/) {
  throw Error("pinned memory asked of a build without CUDA");
}

}  // namespace brigade
