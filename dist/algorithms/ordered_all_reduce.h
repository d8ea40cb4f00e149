#pragma once

#include "dist/algorithms/all_reduce.h"

namespace brigade::dist {

/// Collectives::reduce_scatter by exchange: every rank sends each share to its owner (share_of),
/// who adds the versions in the order of the ranks.
void reduce_scatter_in_rank_order(Collectives& ranks, const Tensor& tensor, Scratch& scratch);

/// --reduce deterministic: every element is the sum ((g0 + g1) + g2) + ... in the order of the
/// ranks, whatever chunk, bucket or tensor it lies in.
///
/// Floating-point addition is not associative. The ring, and MPI's and NCCL's sums, begin an
/// element's additions with another rank depending on where it lies in the tensor, so that another
/// bucket size or mode gives other bits: at 2 ranks never, at 3 and 5 easily. With this one naive,
/// flat, per_param and overlap end with bit-identical weights at any bucket size.
///
/// A reduce-scatter and an all-gather, in each of which every rank exchanges with all others.
/// With S bytes, latency α and time per byte β, on a network that is not blocked by everybody
/// talking to everybody (Thakur, Rabenseifner and Gropp 2005, section 4.3: pairwise exchange):
///
///   T = 2 (N-1) α + 2 (N-1)/N S β
///
/// The ring's cost, but through all links of the network instead of the N between neighbours.
class OrderedAllReduce final : public AllReduce {
 public:
  std::string name() const override { return "direct exchange in rank order"; }
  void run(Collectives& ranks, const Tensor& tensor) override;
};

}  // namespace brigade::dist
