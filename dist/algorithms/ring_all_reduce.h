#pragma once

#include "dist/algorithms/all_reduce.h"
#include "dist/algorithms/segments.h"

namespace brigade::dist {

/// The ring: every rank talks to its two neighbours only, and every link is busy in every step.
///
/// With N ranks, S bytes, latency α and time per byte β (Thakur, Rabenseifner and Gropp 2005, Int.
/// J. High Perform. Comput. Appl. 19, section 4.4; adding is hidden behind the transfer):
///
///   T = 2 (N-1) α + 2 (N-1)/N S β
///
/// No algorithm needs less than the second term (Patarasuk and Yuan 2009, J. Parallel Distrib.
/// Comput. 69); the first makes it slow for short tensors on many ranks (halving_doubling.h).
///
/// The order of additions depends on the chunk of an element, so another bucket size may give other
/// bits (ordered_all_reduce.h does not).
class RingAllReduce final : public AllReduce {
 public:
  std::string name() const override { return "ring"; }
  void run(Collectives& ranks, const Tensor& tensor) override;

 private:
  Scratch scratch_;
};

}  // namespace brigade::dist
