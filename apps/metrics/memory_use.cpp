#include "apps/metrics/memory_use.h"

#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "dist/comm/gather.h"

namespace brigade::apps {

namespace {

/// "VmHWM:   123 kB" of /proc/self/status, in bytes; 0 if it is not there.
std::uint64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::uint64_t kib = 0;
    if (word == key && status >> kib) {
      return kib * 1024;
    }
  }
  return 0;
}

}  // namespace

ResidentPeak::ResidentPeak() {
  malloc_trim(0);
  std::ofstream reset("/proc/self/clear_refs");
  reset << 5 << std::flush;
  known_ = reset.good();
  start_ = status_bytes("VmRSS:");
}

std::uint64_t ResidentPeak::growth() const {
  const std::uint64_t peak = status_bytes("VmHWM:");
  return known_ && peak > start_ ? peak - start_ : 0;
}

MemoryUse measure_memory(const dist::GradAverager& data_parallel, const optim::Optimizer& optimizer,
                         const std::vector<autograd::Variable>& parameters,
                         const ResidentPeak& resident, const MemoryStats& tensors) {
  MemoryUse use{.peak = tensors.peak_in_use};
  for (const dist::Bucket& bucket : data_parallel.buckets()) {
    use.weights += bucket.data.nbytes();
    use.gradients += bucket.grads.nbytes();
    use.peak += bucket.grads.in_memory_stats() ? 0 : bucket.grads.nbytes();  // the communicator's
  }
  for (const autograd::Variable& parameter : parameters) {
    use.weights += parameter.requires_grad() ? 0 : parameter.data().nbytes();
  }
  use.optimizer_state = optimizer.state_bytes();
  use.activations_and_rest = use.peak - use.weights - use.gradients - use.optimizer_state;
  use.process_growth = resident.growth();
  return use;
}

MemoryUse largest_of_ranks(const MemoryUse& mine, dist::Communicator& comm) {
  return std::ranges::max(dist::all_gather_values(comm, mine), {}, &MemoryUse::peak);
}

}  // namespace brigade::apps
