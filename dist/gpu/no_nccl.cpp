// Replaces nccl_communicator.cpp in builds without NCCL.
#include "core/error.h"
#include "dist/gpu/nccl_communicator.h"

namespace brigade::dist {

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> /*control*/,
                                                     Device /*device*/, bool /*shared_gpu*/) {
  throw UsageError(
      "this build has no NCCL (BRIGADE_NCCL=OFF, or not found by CMake); use --comm mpi");
}

}  // namespace brigade::dist
