// Chooses device and communicator at run time: the part of launch.h that knows all implementations.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/config.h"
#include "core/error.h"
#include "dist/launch.h"
#include "dist/mpi_communicator.h"
#include "dist/nccl_communicator.h"
#include "dist/single_process.h"
#include "dist/staged_communicator.h"

namespace brigade::dist {
namespace {

/// Whether two ranks of the group compute on one GPU. Collective.
bool gpu_is_shared(Device device, Communicator& control) {
  struct Key {
    char text[64];
  };
  Key mine{};
  const std::string uuid = gpu_identity(device.index).uuid;
  std::copy_n(uuid.begin(), std::min(uuid.size(), sizeof mine.text - 1), mine.text);
  const std::vector<Key> keys = all_gather_values(control, mine);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (std::strcmp(keys[i].text, keys[j].text) == 0) {
        return true;
      }
    }
  }
  return false;
}

std::unique_ptr<Communicator> make_gpu_communicator(const std::string& request, Device device,
                                                    std::unique_ptr<MpiCommunicator> mpi) {
  const bool shared = gpu_is_shared(device, *mpi);
  if (shared && mpi->rank() == 0) {
    std::fputs(
        "[rank 0] warning: several ranks share one GPU: results are right, timings mean nothing\n",
        stderr);
  }
  if (request == "nccl" || (request == "auto" && kHasNccl)) {
    return make_nccl_communicator(std::move(mpi), device, shared);
  }
  if constexpr (kHasCuda) {
    return make_staged_communicator(std::move(mpi), device);
  }
  throw UsageError(concat("comm: ", device, " asked of a build without CUDA; use --device cpu"));
}

}  // namespace

Device choose_device(const std::string& request, const RankInfo& info, Communicator& control,
                     std::string& note) {
  BRIGADE_CHECK(request == "auto" || request == "cpu" || request == "cuda", "device: unknown '",
                request, "'");
  if (request == "cpu") {
    return kCpu;
  }
  const CudaInfo cuda = cuda_info();
  const std::vector<int> counts = all_gather_values(control, cuda.device_count);
  const auto without = std::find(counts.begin(), counts.end(), 0);
  if (without == counts.end()) {
    return {DeviceType::cuda, info.local_rank % cuda.device_count};
  }
  const auto rank_without = without - counts.begin();
  const std::string why =
      cuda.device_count > 0 ? concat("rank ", rank_without, " has no GPU") : cuda.why_not;
  if (request == "cuda") {
    throw UsageError(concat("device: cuda is not usable: ", why, "; use --device cpu"));
  }
  if (kHasCuda) {
    note = concat("no usable GPU (", why, "): running on the CPU");
  }
  return kCpu;
}

std::unique_ptr<Communicator> make_communicator(const std::string& request, Device device) {
  BRIGADE_CHECK(request == "auto" || request == "mpi" || request == "nccl", "comm: unknown '",
                request, "'");
  if (request == "nccl" && !device.is_cuda()) {
    throw UsageError(
        "comm: nccl moves GPU memory, but this run is on the CPU; use --comm mpi or auto");
  }
  auto mpi = std::make_unique<MpiCommunicator>();
  if (request == "auto" && mpi->size() == 1) {
    return std::make_unique<SingleProcessCommunicator>(device);
  }
  if (!device.is_cuda()) {
    return mpi;
  }
  return make_gpu_communicator(request, device, std::move(mpi));
}

}  // namespace brigade::dist
