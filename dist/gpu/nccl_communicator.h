#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/device.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// What a user may want of NCCL.
struct NcclOptions {
  /// Thread blocks (CTAs), and so SMs, that a collective may take from the computation beside it;
  /// 0: NCCL decides.
  std::int64_t max_ctas = 0;
  /// Allocate buckets with ncclMemAlloc and register them as symmetric windows: on one node NCCL
  /// then sums without a copy of its own. Where it cannot, buckets are as without.
  bool register_buckets = false;
};

/// Ranks that exchange GPU tensors through NCCL. Collective over `control`, the MPI communicator of
/// the same ranks: it introduces them to each other and serves barrier, all_gather and broadcast
/// from then on.
///
/// `shared_gpu`: at least two ranks use one GPU, which NCCL refuses unless told otherwise: before
/// 2.30 each rank then pretends to be a host of its own and gradients travel through sockets. Right
/// results, slow, good for tests and teaching. Must be the same on all ranks, and known before this
/// process makes its first NCCL call.
///
/// Errors: no NCCL in this build (UsageError); NCCL's own, or no answer of the other ranks within
/// 60 s.
std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> control,
                                                     Device device, bool shared_gpu,
                                                     const NcclOptions& options = {});

/// Whether this build has NCCL, and which: "2.28.9", or empty.
bool nccl_available();
std::string nccl_version();

}  // namespace brigade::dist
