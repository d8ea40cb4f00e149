#pragma once

#include <cstdint>
#include <vector>

#include "core/runtime/allocator.h"
#include "dist/ddp/grad_averager.h"
#include "optim/optimizer.h"

namespace brigade::apps {

/// Where a rank's memory for training is, in bytes on the training device.
struct MemoryUse {
  std::uint64_t weights = 0;          ///< the buckets' weights, padding included, and frozen ones
  std::uint64_t gradients = 0;        ///< the buckets' gradients: there are no others
  std::uint64_t optimizer_state = 0;  ///< momentum: one number per weight; Adam: two
  /// The rest of the peak: activations, their gradients, batches, a communication hook's state, the
  /// copy of a bucket that is being moved, and up to 255 bytes of rounding per tensor.
  std::uint64_t activations_and_rest = 0;
  /// Most bytes in live tensors at one time since the data set was loaded: the sum of the above.
  std::uint64_t peak = 0;
  std::uint64_t process_growth = 0;  ///< ResidentPeak::growth()
};

/// By how much the process grows during this object's life, to compare with other programs: the
/// highest resident set (VmHWM of /proc/self/status) minus the resident set at the start. Counts
/// libraries' workspaces and newly loaded code as well; on a GPU the host's side only.
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

/// This rank's, at the end of a run; `parameters`: also those that are frozen; `tensors`: the
/// training device's.
MemoryUse measure_memory(const dist::GradAverager& data_parallel, const optim::Optimizer& optimizer,
                         const std::vector<autograd::Variable>& parameters,
                         const ResidentPeak& resident, const MemoryStats& tensors);

/// That of the rank with the largest peak. Collective.
MemoryUse largest_of_ranks(const MemoryUse& mine, dist::Communicator& comm);

}  // namespace brigade::apps
