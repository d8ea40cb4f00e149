#include "dist/collectives.h"

namespace brigade::dist {

void Collectives::sum(const Tensor& tensor) {
  const auto ranks = static_cast<std::uint64_t>(size_);
  bytes_sent_.fetch_add(2 * (ranks - 1) * tensor.nbytes() / ranks, std::memory_order_relaxed);
  do_sum(tensor);
}

void Collectives::exchange(std::span<const Message> outgoing, std::span<const Message> incoming) {
  for (const Message& message : outgoing) {
    bytes_sent_.fetch_add(message.tensor.nbytes(), std::memory_order_relaxed);
  }
  do_exchange(outgoing, incoming);
}

}  // namespace brigade::dist
