// Chooses device and communicator at run time: the part of launch.h that knows all implementations.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <set>

#include "core/config.h"
#include "core/error.h"
#include "dist/halving_doubling.h"
#include "dist/launch.h"
#include "dist/mpi_communicator.h"
#include "dist/nccl_communicator.h"
#include "dist/ring_all_reduce.h"
#include "dist/single_process.h"
#include "dist/socket_communicator.h"
#include "dist/staged_communicator.h"
#include "dist/tree_all_reduce.h"

namespace brigade::dist {
namespace {

/// Number of different texts among the ranks'. Collective.
std::size_t count_different(const std::string& mine, Communicator& control) {
  std::array<char, 256> text{};
  std::copy_n(mine.begin(), std::min(mine.size(), text.size()), text.begin());
  const auto all = all_gather_values(control, text);
  return std::set<std::array<char, 256>>(all.begin(), all.end()).size();
}

/// Whether two ranks of the group compute on one GPU. Collective. By its UUID, because
/// CUDA_VISIBLE_DEVICES may give one number to different GPUs.
bool gpu_is_shared(Device device, Communicator& control) {
  const std::size_t gpus = count_different(gpu_identity(device.index).uuid, control);
  return gpus < static_cast<std::size_t>(control.size());
}

bool on_several_hosts(Communicator& control) {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return count_different(name.data(), control) > 1;
}

/// Null for requests that are not for one of our own algorithms.
std::unique_ptr<AllReduce> own_algorithm(const std::string& request) {
  if (request == "ring") {
    return std::make_unique<RingAllReduce>();
  }
  if (request == "halving") {
    return std::make_unique<HalvingDoublingAllReduce>();
  }
  if (request == "tree") {
    return std::make_unique<TreeAllReduce>();
  }
  return nullptr;
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
  // All ranks or none: half a job on GPUs would wait for its CPU half in every step.
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
  std::unique_ptr<AllReduce> algorithm = own_algorithm(request);
  BRIGADE_CHECK(request == "auto" || request == "mpi" || request == "nccl" || algorithm,
                "comm: unknown '", request, "'");
  if (request == "nccl" && !device.is_cuda()) {
    throw UsageError(
        "comm: nccl moves GPU memory, but this run is on the CPU; use --comm mpi or auto");
  }
  if (algorithm && device.is_cuda()) {
    throw UsageError(concat("comm: ", request, " moves host memory through sockets, but this ",
                            "run is on ", device, "; use --comm auto or --device cpu"));
  }
  auto mpi = std::make_unique<MpiCommunicator>();
  if (request == "auto" && mpi->size() == 1) {
    return std::make_unique<SingleProcessCommunicator>(device);
  }
  if (device.is_cuda()) {
    return make_gpu_communicator(request, device, std::move(mpi));
  }
  // On a network the ring over sockets hides most of itself behind the computation and costs least
  // (socket_mesh.h); within a host MPI's shared memory is faster than loopback.
  if (request == "auto" && on_several_hosts(*mpi)) {
    algorithm = std::make_unique<RingAllReduce>();
  }
  if (!algorithm) {
    return mpi;
  }
  auto sockets = std::make_unique<SocketCommunicator>(std::move(mpi));
  sockets->use(std::move(algorithm));
  return sockets;
}

}  // namespace brigade::dist
