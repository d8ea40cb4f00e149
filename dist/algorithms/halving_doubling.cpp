#include "dist/algorithms/halving_doubling.h"

#include <array>
#include <bit>
#include <vector>

#include "core/share.h"

namespace brigade::dist {

// N' is the largest power of two that is not above N; the first 2 (N - N') ranks form pairs. In
// each pair the even rank gives all its numbers to the odd one, rests, and gets the sum at the end.
// The N' ranks that remain do the work.
void HalvingDoublingAllReduce::run(Collectives& ranks, const Tensor& tensor) {
  const int rank = ranks.rank();
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks.size())));
  const int extra = ranks.size() - power;
  const bool paired = rank < 2 * extra;
  if (paired && rank % 2 == 0) {
    exchange_and_add(ranks, std::array{Message{rank + 1, tensor}}, {}, scratch_);
    ranks.exchange({}, std::array{Message{rank + 1, tensor}});
    return;
  }
  if (paired) {
    exchange_and_add(ranks, {}, std::array{Message{rank - 1, tensor}}, scratch_);
  }
  run_power_of_two(ranks, tensor, extra);
  if (paired) {
    ranks.exchange(std::array{Message{rank - 1, tensor}}, {});
  }
}

// The working ranks have places 0 ... N'-1.
//
//   Halving, distance = N'/2, N'/4, ... 1: a rank and its partner, `distance` places away, hold
//     partial sums of the same stretch of the tensor. Each keeps one half of it, gives the other
//     half to the partner, and adds what it gets. At the end each rank has the finished sum of 1/N'
//     of the tensor.
//
//   Doubling is the same in reverse: each rank sends its partner what it kept, which is finished
//     now, and gets back what it gave away.
void HalvingDoublingAllReduce::run_power_of_two(Collectives& ranks, const Tensor& tensor,
                                                int extra) {
  struct Halving {
    int partner;
    Tensor kept;
    Tensor given;
  };
  const int rank = ranks.rank();
  const int place = rank < 2 * extra ? rank / 2 : rank - extra;
  const auto rank_at = [extra](int where) { return where < extra ? 2 * where + 1 : where + extra; };

  std::vector<Halving> halvings;
  Tensor stretch = tensor;
  for (int distance = (ranks.size() - extra) / 2; distance >= 1; distance /= 2) {
    const int keep = (place & distance) == 0 ? 0 : 1;  // the partner's bit is the other one
    const Halving halving{.partner = rank_at(place ^ distance),
                          .kept = share_of(stretch, keep, 2),
                          .given = share_of(stretch, 1 - keep, 2)};
    exchange_and_add(ranks, std::array{Message{halving.partner, halving.given}},
                     std::array{Message{halving.partner, halving.kept}}, scratch_);
    stretch = halving.kept;
    halvings.push_back(halving);
  }
  for (; !halvings.empty(); halvings.pop_back()) {
    const Halving& halving = halvings.back();
    ranks.exchange(std::array{Message{halving.partner, halving.kept}},
                   std::array{Message{halving.partner, halving.given}});
  }
}

}  // namespace brigade::dist
