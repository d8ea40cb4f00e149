#include "dist/comm/collectives.h"

#include <vector>

#include "dist/algorithms/ordered_all_reduce.h"

namespace brigade::dist {

void Collectives::sum(const Tensor& tensor) {
  const std::uint64_t before = bytes_sent();
  do_sum(tensor);
  if (bytes_sent() == before) {  // no exchange has counted, so a library did it
    const auto ranks = static_cast<std::uint64_t>(size_);
    count_sent(2 * (ranks - 1) * tensor.nbytes() / ranks);
  }
}

void Collectives::exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                           const OnArrival& on_arrival) {
  for (const Message& message : outgoing) {
    count_sent(message.tensor.nbytes());
  }
  std::size_t reported = 0;
  const OnArrival report = [&](std::size_t i) {
    reported = i + 1;
    if (on_arrival) {
      on_arrival(i);
    }
  };
  do_exchange(outgoing, incoming, report);
  while (reported < incoming.size()) {
    report(reported);
  }
}

void Collectives::reduce_scatter(const Tensor& tensor) {
  reduce_scatter_in_rank_order(*this, tensor, scratch_);
}

void Collectives::all_gather(const Tensor& tensor) {
  const Tensor mine = share_of(tensor, rank_, size_);
  std::vector<Message> outgoing;
  std::vector<Message> incoming;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) {
      outgoing.push_back({peer, mine});
      incoming.push_back({peer, share_of(tensor, peer, size_)});
    }
  }
  exchange(outgoing, incoming);
}

}  // namespace brigade::dist
