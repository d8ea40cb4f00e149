#include "dist/algorithms/ordered_all_reduce.h"

#include <vector>

#include "core/ops.h"

namespace brigade::dist {

// Additions must keep the order of ranks while messages of all ranks arrive. The terms of the ranks
// below r are gathered in the first of them, the rest in r's own share:
//
//   first = g0;  first += g1;  ...  own += first;  own += g(r+1);  ...
//
// Segment by segment, so that adding begins when the first segments are there.
void reduce_scatter_in_rank_order(Collectives& ranks, const Tensor& tensor, Scratch& scratch) {
  const int rank = ranks.rank();
  const auto others = static_cast<std::size_t>(ranks.size() - 1);
  std::vector<Message> outgoing;
  for (int peer = 0; peer < ranks.size(); ++peer) {
    if (peer != rank) {
      for (const Tensor& segment : segments_of(share_of(tensor, peer, ranks.size()))) {
        outgoing.push_back({peer, segment});
      }
    }
  }
  const Tensor own_share = share_of(tensor, rank, ranks.size());
  std::vector<Tensor> own_segments = segments_of(own_share);
  const Tensor space = scratch.take((ranks.size() - 1) * own_share.numel(), tensor);
  std::int64_t used = 0;
  std::vector<Message> terms;  // of the first segment in the order of ranks, of the second, ...
  for (const Tensor& own : own_segments) {
    for (int peer = 0; peer < ranks.size(); ++peer) {
      if (peer != rank) {
        terms.push_back({peer, space.flat_view(used, own.shape())});
        used += own.numel();
      }
    }
  }

  ranks.exchange(outgoing, terms, [&](std::size_t i) {
    constexpr Scale kAdd{.alpha = 1.0, .beta = 1.0};
    const Message& term = terms[i];
    Tensor& first = terms[i - i % others].tensor;
    Tensor& own = own_segments[i / others];
    if (term.peer > rank) {
      ops::axpby(term.tensor, kAdd, own);
      return;
    }
    if (term.peer > 0) {
      ops::axpby(term.tensor, kAdd, first);
    }
    if (term.peer == rank - 1) {
      ops::axpby(first, kAdd, own);
    }
  });
}

void OrderedAllReduce::run(Collectives& ranks, const Tensor& tensor) {
  reduce_scatter_in_rank_order(ranks, tensor, scratch_);
  ranks.all_gather(tensor);
}

}  // namespace brigade::dist
