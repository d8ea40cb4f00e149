#include "dist/algorithms/ordered_all_reduce.h"

#include <vector>

#include "core/ops.h"

namespace brigade::dist {

// The owner, rank r, adds g0 + g1 + ... + g(r-1) into the first version that it receives, then adds
// that and the other versions to its own share.
void reduce_scatter_in_rank_order(Collectives& ranks, const Tensor& tensor, Scratch& scratch) {
  constexpr Scale kAdd{.alpha = 1.0, .beta = 1.0};
  const int size = ranks.size();
  const int rank = ranks.rank();
  Tensor own = share_of(tensor, rank, size);
  const Tensor space = scratch.take((size - 1) * own.numel(), tensor);
  std::vector<Message> others;    // every other rank with its share
  std::vector<Message> versions;  // of my share, in rank order
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank) {
      const auto place = static_cast<std::int64_t>(versions.size());
      others.push_back({peer, share_of(tensor, peer, size)});
      versions.push_back({peer, space.flat_view(place * own.numel(), own.shape())});
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
}

void OrderedAllReduce::run(Collectives& ranks, const Tensor& tensor) {
  ranks.reduce_scatter(tensor);
  ranks.all_gather(tensor);
}

}  // namespace brigade::dist
