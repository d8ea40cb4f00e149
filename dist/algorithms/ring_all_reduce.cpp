#include "dist/algorithms/ring_all_reduce.h"

#include <array>

#include "core/share.h"

namespace brigade::dist {

// The tensor is cut into N chunks (share_of) and the N ranks stand in a circle. In every step each
// rank sends one chunk to its right neighbour and receives another one from its left, at the same
// time. All numbers are modulo N.
//
//   reduce-scatter, step s = 0 ... N-2: rank r sends chunk r - s and adds what arrives to its own
//     chunk r - s - 1. That is the chunk it sends next, so a partial sum walks around the circle
//     and grows by one rank's numbers in each step. After N-1 steps it has met all ranks: rank r
//     owns the finished sum of chunk r + 1.
//
//   all-gather, step s = 0 ... N-2: rank r sends chunk r + 1 - s, which is finished, and overwrites
//     its chunk r - s with the finished one that arrives.
//
// Stopping after the first N-1 steps leaves every rank with one finished chunk and N-1 that are
// not.
void RingAllReduce::run(Collectives& ranks, const Tensor& tensor) {
  const int size = ranks.size();
  const int rank = ranks.rank();
  const int right = (rank + 1) % size;
  const int left = (rank + size - 1) % size;
  const auto chunk = [&](int number) { return share_of(tensor, (number + size) % size, size); };

  for (int step = 0; step < size - 1; ++step) {
    exchange_and_add(ranks, std::array{Message{right, chunk(rank - step)}},
                     std::array{Message{left, chunk(rank - step - 1)}}, scratch_);
  }
  for (int step = 0; step < size - 1; ++step) {
    ranks.exchange(std::array{Message{right, chunk(rank + 1 - step)}},
                   std::array{Message{left, chunk(rank - step)}});
  }
}

}  // namespace brigade::dist
