#include "dist/algorithms/ordered_all_reduce.h"

#include <vector>

#include "core/ops.h"

namespace brigade::dist {

// The tensor is cut into N chunks; rank r is the owner of chunk r.
//
//   Reduce-scatter: every rank sends each owner its version of the owner's chunk. The owner adds
//     them up in the order of the ranks, its own version in its turn.
//
//   All-gather: every owner sends its finished chunk to everybody.
void OrderedAllReduce::run(Collectives& ranks, const Tensor& tensor) {
  reduce_scatter(ranks, tensor);
  std::vector<Message> outgoing;
  std::vector<Message> incoming;
  for (int peer = 0; peer < ranks.size(); ++peer) {
    if (peer != ranks.rank()) {
      outgoing.push_back({peer, chunk_of(tensor, ranks.size(), ranks.rank())});
      incoming.push_back({peer, chunk_of(tensor, ranks.size(), peer)});
    }
  }
  ranks.exchange(outgoing, incoming);
}

// Additions must keep the order of ranks while messages of all ranks arrive. The terms of the ranks
// below r are gathered in the first of them, the rest in r's own chunk:
//
//   first = g0;  first += g1;  ...  own += first;  own += g(r+1);  ...
//
// Segment by segment, so that adding begins when the first segments are there.
void OrderedAllReduce::reduce_scatter(Collectives& ranks, const Tensor& tensor) {
  const int rank = ranks.rank();
  const auto others = static_cast<std::size_t>(ranks.size() - 1);
  std::vector<Message> outgoing;
  for (int peer = 0; peer < ranks.size(); ++peer) {
    if (peer != rank) {
      for (const Tensor& segment : segments_of(chunk_of(tensor, ranks.size(), peer))) {
        outgoing.push_back({peer, segment});
      }
    }
  }
  const Tensor own_chunk = chunk_of(tensor, ranks.size(), rank);
  std::vector<Tensor> own_segments = segments_of(own_chunk);
  const Tensor space = scratch_.take((ranks.size() - 1) * own_chunk.numel(), tensor);
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

}  // namespace brigade::dist
