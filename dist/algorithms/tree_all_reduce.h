#pragma once

#include "dist/algorithms/all_reduce.h"
#include "dist/algorithms/segments.h"

namespace brigade::dist {

/// A binary tree: sums climb to rank 0, the result comes down again, segment by segment.
///
/// With N ranks, S bytes in S/m segments of m bytes, latency α and time per byte β, where a parent
/// receives from two children over one link (Sanders, Speck and Träff 2009, Parallel Computing 35,
/// section 2: the pipelined binary tree):
///
///   T = 2 (log2(N) + S/m - 1) (α + 2 m β),   for long tensors about 4 S β
///
/// Twice the bytes of the ring through the busiest link, but only 2 log2(N) steps for a short
/// tensor, and a rank knows three others at most. Leaves hardly do anything, which is why NCCL
/// runs two trees whose leaves are each other's inner ranks.
///
/// Every element is added up along the same tree: the bits do not depend on bucket boundaries.
class TreeAllReduce final : public AllReduce {
 public:
  std::string name() const override { return "binary tree"; }
  void run(Collectives& ranks, const Tensor& tensor) override;

 private:
  Scratch scratch_;
};

}  // namespace brigade::dist
