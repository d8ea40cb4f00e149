#include "dist/algorithms/ordered_all_reduce.h"

#include <vector>

#include "core/ops.h"

namespace brigade::dist {

// The tensor is cut into N chunks; rank r is the owner of chunk r.
//
//   Reduce-scatter: every rank sends each owner its version of the owner's chunk. The owner adds
//     the versions in the order of the ranks: g0 + g1 + ... + g(r-1), then its own, then the rest.
//
//   All-gather: every owner sends its finished chunk to all ranks.
void OrderedAllReduce::run(Collectives& ranks, const Tensor& tensor) {
  constexpr Scale kAdd{.alpha = 1.0, .beta = 1.0};
  const int size = ranks.size();
  const int rank = ranks.rank();
  Tensor own = chunk_of(tensor, size, rank);
  const Tensor space = scratch_.take((size - 1) * own.numel(), tensor);
  std::vector<Message> others;    // every other rank with its chunk
  std::vector<Message> versions;  // of my chunk, in rank order
  std::vector<Message> finished;  // my chunk, to every other rank
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank) {
      const auto place = static_cast<std::int64_t>(versions.size());
      others.push_back({peer, chunk_of(tensor, size, peer)});
      versions.push_back({peer, space.flat_view(place * own.numel(), own.shape())});
      finished.push_back({peer, own});
    }
  }
  ranks.exchange(others, versions);
  for (const Message& version : versions) {
    if (version.peer > rank) {
      ops::axpby(version.tensor, kAdd, own);
    } else if (version.peer > 0) {
      ops::axpby(version.tensor, kAdd, versions.front().tensor);
    }
    if (version.peer == rank - 1) {
      ops::axpby(versions.front().tensor, kAdd, own);
    }
  }
  ranks.exchange(finished, others);
}

}  // namespace brigade::dist
