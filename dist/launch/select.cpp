// Chooses device and communicator at run time: the part of launch.h that knows all implementations.
#include <algorithm>
#include <array>
#include <set>

#include "core/config.h"
#include "core/error.h"
#include "dist/algorithms/halving_doubling.h"
#include "dist/algorithms/hierarchical_all_reduce.h"
#include "dist/algorithms/ring_all_reduce.h"
#include "dist/algorithms/tree_all_reduce.h"
#include "dist/comm/fallback.h"
#include "dist/comm/gather.h"
#include "dist/comm/mpi_communicator.h"
#include "dist/comm/single_process.h"
#include "dist/gpu/nccl_communicator.h"
#include "dist/gpu/staged_communicator.h"
#include "dist/launch/launch.h"
#include "dist/shared_memory/shared_memory_communicator.h"
#include "dist/shared_memory/shared_window.h"
#include "dist/sockets/socket_communicator.h"

namespace brigade::dist {
namespace {

/// True if two ranks of the group compute on one GPU. Compares UUIDs, because CUDA_VISIBLE_DEVICES
/// may give one number to different GPUs. Collective.
bool gpu_is_shared(Device device, Communicator& control) {
  std::array<char, 256> uuid{};
  gpu_identity(device.index).uuid.copy(uuid.data(), uuid.size());
  const auto all = all_gather_values(control, uuid);
  return std::set(all.begin(), all.end()).size() < all.size();
}

/// `request`: "ring", "auto", "halving" or "tree".
std::unique_ptr<AllReduce> own_algorithm(const std::string& request) {
  if (request == "halving") {
    return std::make_unique<HalvingDoublingAllReduce>();
  }
  if (request == "tree") {
    return std::make_unique<TreeAllReduce>();
  }
  return std::make_unique<RingAllReduce>();
}

std::unique_ptr<Communicator> make_gpu_communicator(const std::string& request, Device device,
                                                    std::unique_ptr<MpiCommunicator> mpi) {
  const bool shared = gpu_is_shared(device, *mpi);
  if (shared && mpi->rank() == 0) {
    report_line(
        "[rank 0] warning: several ranks share one GPU: results are right, timings mean nothing");
  }
  if (request == "nccl") {
    return make_nccl_communicator(std::move(mpi), device, shared);
  }
  if (request == "auto" && kHasNccl) {
    std::string why;
    const auto with_nccl = [&] {
      return make_nccl_communicator(std::make_unique<MpiCommunicator>(), device, shared);
    };
    if (auto comm = if_all_can(*mpi, with_nccl, why)) {
      return comm;
    }
    if (mpi->rank() == 0) {
      report_line(
          fmt::format("[rank 0] warning: NCCL cannot be used ({}): gradients go through host "
                      "memory and MPI, which is slower; --comm nccl makes this an error",
                      why));
    }
  }
  if constexpr (kHasCuda) {
    return make_staged_communicator(std::move(mpi), device);
  }
  throw UsageError(fmt::format("comm: {} asked of a build without CUDA; use --device cpu", device));
}

/// Nodes x ranks per node: sockets between all ranks, whose all-reduce adds within the nodes first.
/// Inside a node waiting ranks sleep and do not spin, as a step between nodes takes far longer.
std::unique_ptr<Communicator> make_hierarchical_communicator(std::unique_ptr<MpiCommunicator> mpi) {
  const std::vector<int> hosts = mpi->host_of_ranks();
  check_equal_nodes(hosts);
  const Placement place = placement_of(mpi->rank(), hosts);
  auto node = std::make_unique<SharedMemoryCommunicator>(*mpi, place.node_rank, mpi->rank());
  const std::vector<int> across =
      all_gather_values(*mpi->split(place.local_rank, mpi->rank()), mpi->rank());
  auto world = std::make_unique<SocketCommunicator>(std::move(mpi));
  world->use(std::make_unique<HierarchicalAllReduce>(std::move(node), across));
  return world;
}

/// The request that "auto" stands for. Measured with bench_all_reduce: within a host shared memory
/// is the fastest. On a network the ring over sockets overlaps best with the computation and uses
/// the least CPU time (socket_communicator.h). Several ranks on each host are faster if they add
/// within the host first: on 3 hosts x 2 ranks over 500 Mbit/s 16 MiB take 0.83 of the ring's time.
/// Collective.
std::string best_on_cpu(MpiCommunicator& mpi) {
  const std::vector<int> hosts = mpi.host_of_ranks();
  const Placement place = placement_of(mpi.rank(), hosts);
  const auto node = mpi.split(place.node_rank, mpi.rank());
  const auto trial = [&] {  // a container may forbid shared memory
    check_equal_nodes(hosts);
    const SharedWindow window(*node, 1);
  };
  const bool share_memory = complaints_about(mpi, trial).empty();
  if (place.hosts == 1) {
    return share_memory ? "shared" : "mpi";
  }
  return share_memory && place.hosts < mpi.size() ? "hierarchical" : "ring";
}

}  // namespace

// The analyzer loses track of a unique_ptr that becomes one to its base class on return.
// NOLINTBEGIN(clang-analyzer-cplusplus.NewDeleteLeaks)
std::unique_ptr<Communicator> make_socket_communicator(const std::string& request,
                                                       std::unique_ptr<Communicator> control) {
  auto sockets = std::make_unique<SocketCommunicator>(std::move(control));
  sockets->use(own_algorithm(request));
  return sockets;
}

namespace {

std::unique_ptr<Communicator> make_cpu_communicator(const std::string& request,
                                                    std::unique_ptr<MpiCommunicator> mpi) {
  if (request == "auto") {
    const std::string best = best_on_cpu(*mpi);
    return make_cpu_communicator(best, std::move(mpi));
  }
  if (request == "mpi") {
    return mpi;
  }
  if (request == "shared") {
    return std::make_unique<SharedMemoryCommunicator>(*mpi, 0, mpi->rank());
  }
  if (request == "hierarchical") {
    return make_hierarchical_communicator(std::move(mpi));
  }
  return make_socket_communicator(request, std::move(mpi));
}
// NOLINTEND(clang-analyzer-cplusplus.NewDeleteLeaks)

}  // namespace

Device choose_device(const std::string& request, const RankInfo& info, Communicator& control,
                     std::string& note) {
  BRIGADE_CHECK(request == "auto" || request == "cpu" || request == "cuda", "device: unknown '{}'",
                request);
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
      cuda.device_count > 0 ? fmt::format("rank {} has no GPU", rank_without) : cuda.why_not;
  if (request == "cuda") {
    throw UsageError(fmt::format("device: cuda is not usable: {}; use --device cpu", why));
  }
  if (kHasCuda) {
    note = fmt::format("no usable GPU ({}): running on the CPU", why);
  }
  return kCpu;
}

// NOLINTBEGIN(clang-analyzer-cplusplus.NewDeleteLeaks): as above
std::unique_ptr<Communicator> make_communicator(const std::string& request, Device device) {
  constexpr std::array kOnGpu{"auto", "mpi", "nccl"};
  constexpr std::array kOnCpu{"auto", "mpi", "shared", "hierarchical", "ring", "halving", "tree"};
  const bool for_gpu = std::ranges::find(kOnGpu, request) != kOnGpu.end();
  const bool for_cpu = std::ranges::find(kOnCpu, request) != kOnCpu.end();
  BRIGADE_CHECK(for_gpu || for_cpu, "comm: unknown '{}'", request);
  if (!device.is_cuda() && !for_cpu) {
    throw UsageError(
        "comm: nccl moves GPU memory, but this run is on the CPU; use --comm mpi or auto");
  }
  if (device.is_cuda() && !for_gpu) {
    throw UsageError(fmt::format(
        "comm: {} moves host memory, but this run is on {}; use --comm auto or --device cpu",
        request, device));
  }
  auto mpi = std::make_unique<MpiCommunicator>();
  if (request == "auto" && mpi->size() == 1) {
    return std::make_unique<SingleProcessCommunicator>(device);
  }
  return device.is_cuda() ? make_gpu_communicator(request, device, std::move(mpi))
                          : make_cpu_communicator(request, std::move(mpi));
}
// NOLINTEND(clang-analyzer-cplusplus.NewDeleteLeaks)

}  // namespace brigade::dist
