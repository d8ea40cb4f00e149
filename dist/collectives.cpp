#include "dist/collectives.h"

namespace brigade::dist {

void Collectives::sum(const Tensor& tensor) {
  const std::uint64_t before = bytes_sent();
  do_sum(tensor);
  if (bytes_sent() == before) {  // no exchange has counted, so a library did it
    const auto ranks = static_cast<std::uint64_t>(size_);
    bytes_sent_.fetch_add(2 * (ranks - 1) * tensor.nbytes() / ranks, std::memory_order_relaxed);
  }
}

void Collectives::exchange(std::span<const Message> outgoing, std::span<const Message> incoming) {
  count(outgoing);
  do_exchange(outgoing, incoming);
}

void Collectives::exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                           const OnArrival& on_arrival) {
  count(outgoing);
  do_reporting_exchange(outgoing, incoming, on_arrival);
}

void Collectives::do_reporting_exchange(std::span<const Message> outgoing,
                                        std::span<const Message> incoming,
                                        const OnArrival& on_arrival) {
  do_exchange(outgoing, incoming);
  for (std::size_t i = 0; i < incoming.size(); ++i) {
    on_arrival(i);
  }
}

void Collectives::count(std::span<const Message> outgoing) {
  for (const Message& message : outgoing) {
    bytes_sent_.fetch_add(message.tensor.nbytes(), std::memory_order_relaxed);
  }
}

}  // namespace brigade::dist
