#pragma once

#include "dist/algorithms/all_reduce.h"
#include "dist/algorithms/segments.h"

namespace brigade::dist {

/// Recursive halving and doubling: few steps for short tensors, and no more bytes than the ring.
///
/// For N a power of two (Thakur, Rabenseifner and Gropp 2005, Int. J. High Perform. Comput. Appl.
/// 19, section 4.5; Rabenseifner's algorithm), with S bytes, latency α and time per byte β:
///
///   T = 2 log2(N) α + 2 (N-1)/N S β
///
/// Otherwise N' is the largest power of two below N, and the N - N' ranks too many hand their
/// numbers to a neighbour first and get the sum from it at the end:
///
///   T = (2 log2(N') + 2) α + (2 (N'-1)/N' + 2) S β
///
/// Partners are N/2, N/4, ... ranks apart, so unlike the ring's neighbours they meet on shared
/// links of a real network.
///
/// Every element is added up along the same binary tree of ranks, whatever chunk it lies in: the
/// bits do not depend on bucket boundaries. They are not those of the order of ranks.
class HalvingDoublingAllReduce final : public AllReduce {
 public:
  std::string name() const override { return "recursive halving and doubling"; }
  void run(Collectives& ranks, const Tensor& tensor) override;

 private:
  void run_power_of_two(Collectives& ranks, const Tensor& tensor, int extra);

  Scratch scratch_;
};

}  // namespace brigade::dist
