// Lab 7: inside an all-reduce: the ring, step by step.
//
// The tensor is cut into N chunks; the N ranks form a circle. In each step every rank sends one
// chunk to its right neighbour and receives one from its left. All numbers are modulo N:
//
//   reduce-scatter, s = 0 ... N-2: rank r sends chunk r - s, adds what arrives to chunk r - s - 1.
//                                  Afterwards rank r owns the finished sum of chunk r + 1.
//   all-gather,     s = 0 ... N-2: rank r sends the finished chunk r + 1 - s and overwrites chunk
//                                  r - s with the finished one that arrives.
//
// Each rank sends 2 (N - 1) / N of the tensor, and every link is busy in every step.
#include <algorithm>
#include <array>
#include <cmath>

#include "apps/labs/common.h"
#include "core/ops.h"
#include "dist/comm/gather.h"

namespace brigade::labs {
namespace {

constexpr std::int64_t kChunk = 1000;  ///< numbers in a chunk
constexpr int kDigits = 15;

class Ring {
 public:
  /// Rank r contributes 10^r everywhere, so the digits of a sum tell which ranks are in it. A
  /// double holds 15 digits; rank 15 uses the first one again.
  Ring(dist::Communicator& comm, const Narrator& narrate)
      : comm_(comm), narrate_(narrate), values_(Tensor::zeros({kChunk * comm.size()}, DType::f64)) {
    std::fill_n(values_.data<double>(), values_.numel(), std::pow(10.0, comm.rank() % kDigits));
  }

  void run() {
    const int rank = comm_.rank();
    const std::uint64_t before = comm_.bytes_sent();
    show("before");
    for (int s = 0; s + 1 < comm_.size(); ++s) {
      const Tensor arrived = Tensor::zeros({kChunk}, DType::f64);
      exchange("reduce-scatter", chunk(rank - s), arrived);
      Tensor mine = chunk(rank - s - 1);
      ops::axpby(arrived, {.alpha = 1.0, .beta = 1.0}, mine);  // mine += arrived
      show(fmt::format("reduce-scatter, s = {}: rank r sent chunk r{:+}", s, -s));
    }
    for (int s = 0; s + 1 < comm_.size(); ++s) {
      exchange("all-gather", chunk(rank + 1 - s), chunk(rank - s));
      show(fmt::format("all-gather, s = {}: rank r sent chunk r{:+}", s, 1 - s));
    }
    narrate_("each sent {} of the tensor's {} bytes", comm_.bytes_sent() - before,
             values_.nbytes());
  }

  const Tensor& values() const { return values_; }

 private:
  Tensor chunk(int number) const {
    const int n = comm_.size();
    return values_.flat_view((number % n + n) % n * kChunk, {kChunk});
  }

  /// Sends `sent` to the right and receives `arriving` from the left. One call does both: if all
  /// ranks sent first, all could wait for a receiver.
  void exchange(const char* round, const Tensor& sent, const Tensor& arriving) {
    const int n = comm_.size();
    const dist::Message to_right{(comm_.rank() + 1) % n, sent};
    const dist::Message from_left{(comm_.rank() + n - 1) % n, arriving};
    const dist::Work work = comm_.enqueue(sent, round, [=](dist::Collectives& ranks) {
      ranks.exchange(std::array{to_right}, std::array{from_left});
    });
    comm_.wait(work);
  }

  /// One line per rank: the first number of each of its chunks.
  void show(const std::string& what) {
    narrate_("{}", what);
    for (int rank = 0; rank < comm_.size() && !narrate_.silent; ++rank) {
      std::string line;
      for (int number = 0; number < comm_.size(); ++number) {
        const double first = dist::all_gather_values(
            comm_, *chunk(number).data<double>())[static_cast<std::size_t>(rank)];
        line += fmt::format(" {:0{}.0f}", first, std::min(comm_.size(), kDigits));
      }
      narrate_("  rank {} has chunks{}", rank, line);
    }
  }

  dist::Communicator& comm_;
  const Narrator& narrate_;
  Tensor values_;
};

}  // namespace

void run(dist::Communicator& comm, Recorder& trace) {
  Narrator narrate{comm};
  for (int time = 0; time < kSteps; ++time) {  // printed once; repeated for the time line
    Ring ring(comm, narrate);
    const Tensor expected = ring.values().clone();
    trace.start();
    trace.forward_done();  // there is no network: the step is one "backward"
    comm.blocking_all_reduce(expected, "Communicator");
    ring.run();
    trace.backward_done();
    trace.finish();
    const bool equal = expected.to_vector<double>() == ring.values().to_vector<double>();
    expect(std::ranges::min(dist::all_gather_values(comm, equal ? 1 : 0)) == 1,
           "expected the result of Communicator::all_reduce on every rank");
    narrate("equal to Communicator::all_reduce on all ranks");
    narrate.silent = true;
  }
}

}  // namespace brigade::labs
