#include "dist/algorithms/segments.h"

#include <algorithm>

#include "core/ops.h"

namespace brigade::dist {

std::vector<Tensor> segments_of(const Tensor& tensor) {
  const auto length = static_cast<std::int64_t>(kSegmentBytes / size_of(tensor.dtype()));
  std::vector<Tensor> segments;
  for (std::int64_t begin = 0; begin < tensor.numel(); begin += length) {
    segments.push_back(tensor.flat_view(begin, {std::min(length, tensor.numel() - begin)}));
  }
  return segments;
}

void exchange_and_add(Collectives& ranks, std::span<const Message> outgoing,
                      std::span<const Message> sums, Scratch& scratch) {
  std::vector<Message> sent;
  for (const Message& message : outgoing) {
    for (const Tensor& segment : segments_of(message.tensor)) {
      sent.push_back({message.peer, segment});
    }
  }
  std::int64_t numel = 0;
  for (const Message& sum : sums) {
    numel += sum.tensor.numel();
  }
  // Segments of different peers arrive at the same time, so each needs its own part of the scratch
  // memory, although they are added one by one.
  const Tensor space = sums.empty() ? Tensor() : scratch.take(numel, sums.front().tensor);
  std::int64_t used = 0;
  std::vector<Tensor> totals;
  std::vector<Message> received;
  for (const Message& sum : sums) {
    for (const Tensor& segment : segments_of(sum.tensor)) {
      totals.push_back(segment);
      received.push_back({sum.peer, space.flat_view(used, segment.shape())});
      used += segment.numel();
    }
  }
  ranks.exchange(sent, received, [&](std::size_t i) {
    ops::axpby(received[i].tensor, {.alpha = 1.0, .beta = 1.0}, totals[i]);
  });
}

}  // namespace brigade::dist
