#pragma once

#include <functional>
#include <utility>

#include "dist/algorithms/all_reduce.h"
#include "dist/algorithms/segments.h"

namespace brigade::dist {

/// One of the 2 (N-1) steps of one rank, for an observer.
struct RingStep {
  bool gathering = false;  ///< second phase
  int step = 0;            ///< 0 ... N-2, within the phase
  int sent = 0;            ///< the chunk that went to the right neighbour
  int received = 0;        ///< the chunk from the left neighbour, which was added or overwritten
};

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
  using Observer = std::function<void(const RingStep&, const Tensor&)>;

  /// Calls `observer` after each step with the whole tensor, on the thread of run().
  explicit RingAllReduce(Observer observer = {}) : observer_(std::move(observer)) {}

  std::string name() const override { return "ring"; }
  void run(Collectives& ranks, const Tensor& tensor) override;

 private:
  Observer observer_;
  Scratch scratch_;
};

}  // namespace brigade::dist
