#include "dist/algorithms/tree_all_reduce.h"

#include <vector>

namespace brigade::dist {

// The parent of rank r is (r-1)/2, its children are 2r+1 and 2r+2, as in a heap. The tensor travels
// in segments, so that all levels of the tree work at the same time: in turn t a rank receives
// segment t while it passes on segment t-1.
//
//   Up: a rank adds its children's partial sums of segment t to its own and, one turn later, sends
//     the result to its parent. The left child comes first, always, so that the bits do not depend
//     on who was faster. When a segment leaves rank 0's hands it is finished.
//
//   Down: a rank overwrites segment t with the finished one from its parent and passes it on to its
//     children one turn later.
void TreeAllReduce::run(Collectives& ranks, const Tensor& tensor) {
  const int rank = ranks.rank();
  std::vector<int> parent;  // none for rank 0
  if (rank > 0) {
    parent.push_back((rank - 1) / 2);
  }
  std::vector<int> children;
  for (const int child : {2 * rank + 1, 2 * rank + 2}) {
    if (child < ranks.size()) {
      children.push_back(child);
    }
  }
  const std::vector<Tensor> segments = segments_of(tensor);
  const auto with = [&segments](const std::vector<int>& peers, std::size_t segment) {
    std::vector<Message> messages;
    for (const int peer : peers) {
      if (segment < segments.size()) {
        messages.push_back({peer, segments[segment]});
      }
    }
    return messages;
  };
  const std::size_t nothing = segments.size();

  for (std::size_t turn = 0; turn <= segments.size(); ++turn) {
    const std::size_t ready = turn > 0 ? turn - 1 : nothing;
    exchange_and_add(ranks, with(parent, ready), with(children, turn), scratch_);
  }
  for (std::size_t turn = 0; turn <= segments.size(); ++turn) {
    const std::size_t ready = turn > 0 ? turn - 1 : nothing;
    ranks.exchange(with(children, ready), with(parent, turn));
  }
}

}  // namespace brigade::dist
