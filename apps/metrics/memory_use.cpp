#include "apps/metrics/memory_use.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

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

std::uint64_t shared_gradient_bytes(const dist::GradAverager& data_parallel) {
  std::uint64_t bytes = 0;
  for (const dist::Bucket& bucket : data_parallel.buckets()) {
    bytes += bucket.grads.in_memory_stats() ? 0 : bucket.grads.nbytes();
  }
  return bytes;
}

MemoryUse measure_memory(const dist::GradAverager& data_parallel, const optim::Optimizer& optimizer,
                         const std::vector<autograd::Variable>& parameters,
                         const data::DataSplits& data, const ResidentPeak& resident,
                         const MemoryStats& tensors) {
  MemoryUse use;
  for (const dist::Bucket& bucket : data_parallel.buckets()) {
    use.weights += bucket.data.nbytes();
    use.gradients += bucket.grads.nbytes();
  }
  use.shared_with_peers = shared_gradient_bytes(data_parallel);
  for (const autograd::Variable& parameter : parameters) {
    use.weights += parameter.requires_grad() ? 0 : parameter.data().nbytes();
  }
  use.optimizer_state = optimizer.state_bytes();
  use.peak = tensors.peak_in_use + use.shared_with_peers;
  use.kept_for_reuse = tensors.reserved - std::min(tensors.reserved, tensors.peak_in_use);
  use.activations_and_rest = use.peak - use.weights - use.gradients - use.optimizer_state;
  use.data_set = data.train->nbytes() + data.test->nbytes();
  use.process_growth = resident.growth();
  return use;
}

MemoryUse largest_of_ranks(const MemoryUse& mine, dist::Communicator& comm) {
  const std::vector<MemoryUse> all = dist::all_gather_values(comm, mine);
  return *std::max_element(all.begin(), all.end(),
                           [](const MemoryUse& a, const MemoryUse& b) { return a.peak < b.peak; });
}

std::vector<std::string> memory_table(const MemoryUse& use) {
  std::vector<std::string> lines;
  const auto row = [&](std::string_view what, std::uint64_t bytes, std::string_view note) {
    lines.push_back(fmt::format("  {:<22} {:>9.2f} MiB {:>5.1f} %{}", what,
                                static_cast<double>(bytes) / 0x1p20,
                                100.0 * static_cast<double>(bytes) /
                                    static_cast<double>(std::max<std::uint64_t>(use.peak, 1)),
                                note));
  };
  lines.emplace_back("memory at its peak, largest rank:");
  row("weights", use.weights, "");
  row("gradients = buckets", use.gradients,
      use.shared_with_peers > 0 ? "  provided by the communicator" : "");
  row("optimizer state", use.optimizer_state, "");
  row("activations and rest", use.activations_and_rest, "");
  row("sum", use.peak,
      fmt::format("  + {:.2f} MiB kept for reuse, {:.2f} MiB of data set in host memory",
                  static_cast<double>(use.kept_for_reuse) / 0x1p20,
                  static_cast<double>(use.data_set) / 0x1p20));
  return lines;
}

nlohmann::ordered_json memory_json(const MemoryUse& use) {
  return {{"weights", use.weights},
          {"gradients", use.gradients},
          {"optimizer_state", use.optimizer_state},
          {"activations_and_rest", use.activations_and_rest},
          {"peak", use.peak},
          {"shared_with_peers", use.shared_with_peers},
          {"kept_for_reuse", use.kept_for_reuse},
          {"data_set", use.data_set},
          {"process_growth",
           use.process_growth > 0 ? nlohmann::ordered_json(use.process_growth) : nullptr}};
}

}  // namespace brigade::apps
