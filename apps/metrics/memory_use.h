#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/runtime/allocator.h"
#include "dist/ddp/grad_averager.h"
#include "nn/data/dataset.h"
#include "optim/optimizer.h"

namespace brigade::apps {

/// Where a rank's memory for training is, in bytes. On the training device, but for data_set.
struct MemoryUse {
  std::uint64_t weights = 0;          ///< the buckets' weights, padding included, and frozen ones
  std::uint64_t gradients = 0;        ///< the buckets' gradients: there are no others
  std::uint64_t optimizer_state = 0;  ///< momentum: one number per weight; Adam: two
  /// Everything else at the moment of the peak: activations that lie in no gradient (core/runtime/loan.h),
  /// their own gradients, batches, what a communication hook keeps, the copy of a bucket that is
  /// being moved, and up to 255 bytes of rounding per tensor.
  std::uint64_t activations_and_rest = 0;
  /// Most bytes in live tensors at one time since the data set was loaded: the sum of the above.
  std::uint64_t peak = 0;
  /// The part of `gradients` that a communicator has provided (dist::Communicator::make_buffer):
  /// the allocator knows nothing of it, and `peak` counts it on top.
  std::uint64_t shared_with_peers = 0;
  std::uint64_t kept_for_reuse = 0;  ///< taken from the system beyond the peak
  std::uint64_t data_set = 0;        ///< both splits, in host memory, not in tensors
  std::uint64_t process_growth = 0;  ///< ResidentPeak::growth()
};

/// By how much the process grows while this lives, for comparisons with other programs: the highest
/// resident set (VmHWM of /proc/self/status) less the resident set at the start. Counts everything,
/// in tensors or not: a library's workspace, code that is touched for the first time, and on a GPU
/// the host's side only.
class ResidentPeak {
 public:
  /// Gives back what malloc keeps, and resets VmHWM (/proc/self/clear_refs).
  ResidentPeak();
  /// In bytes; 0 where /proc does not let us measure it.
  std::uint64_t growth() const;

 private:
  std::uint64_t start_ = 0;
  bool known_ = false;
};

/// Bytes of gradients that a communicator has provided, of which the allocator knows nothing.
std::uint64_t shared_gradient_bytes(const dist::GradAverager& data_parallel);

/// This rank's, at the end of a run; `parameters`: also those that are frozen; `tensors`: the
/// training device's.
MemoryUse measure_memory(const dist::GradAverager& data_parallel, const optim::Optimizer& optimizer,
                         const std::vector<autograd::Variable>& parameters,
                         const data::DataSplits& data, const ResidentPeak& resident,
                         const MemoryStats& tensors);

/// That of the rank with the largest peak. Collective.
MemoryUse largest_of_ranks(const MemoryUse& mine, dist::Communicator& comm);

/// The table for people, one line each.
std::vector<std::string> memory_table(const MemoryUse& use);

/// The same numbers, in bytes.
nlohmann::ordered_json memory_json(const MemoryUse& use);

}  // namespace brigade::apps
