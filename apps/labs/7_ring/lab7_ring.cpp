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
#include <mpi.h>

#include <algorithm>
#include <cmath>

#include "apps/labs/common.h"
#include "dist/comm/mpi_check.h"

namespace brigade::labs {
namespace {

constexpr std::size_t kChunk = 1000;  ///< numbers in a chunk
constexpr int kDigits = 15;

class Ring {
 public:
  /// Rank r contributes 10^r everywhere, so the digits of a sum tell which ranks are in it. A
  /// double holds 15 digits; rank 15 uses the first one again.
  Ring(dist::Communicator& comm, Recorder& trace, const Narrator& narrate)
      : comm_(comm),
        trace_(trace),
        narrate_(narrate),
        values_(kChunk * static_cast<std::size_t>(comm.size()),
                std::pow(10.0, comm.rank() % kDigits)) {}

  void run() {
    const int rank = comm_.rank();
    show("before");
    for (int s = 0; s + 1 < comm_.size(); ++s) {
      const std::vector<double> arrived = exchange("reduce-scatter", rank - s);
      double* mine = chunk_begin(rank - s - 1);  // += arrived
      std::transform(arrived.begin(), arrived.end(), mine, mine, std::plus<>());
      show(fmt::format("reduce-scatter, s = {}: rank r sent chunk r{:+}", s, -s));
    }
    for (int s = 0; s + 1 < comm_.size(); ++s) {
      const std::vector<double> arrived = exchange("all-gather", rank + 1 - s);
      std::copy(arrived.begin(), arrived.end(), chunk_begin(rank - s));
      show(fmt::format("all-gather, s = {}: rank r sent chunk r{:+}", s, 1 - s));
    }
    narrate_("each sent {} of the tensor's {} bytes", bytes_sent_, values_.size() * sizeof(double));
  }

  const std::vector<double>& values() const { return values_; }

 private:
  double* chunk_begin(int chunk) {
    const int n = comm_.size();
    return values_.data() + static_cast<std::size_t>((chunk % n + n) % n) * kChunk;
  }

  /// Sends chunk number `chunk` to the right; returns the one received from the left. One call does
  /// both: if all ranks sent first, all could wait for a receiver.
  std::vector<double> exchange(const char* round, int chunk) {
    const int size = comm_.size();
    const int right = (comm_.rank() + 1) % size;
    const int left = (comm_.rank() + size - 1) % size;
    std::vector<double> arrived(kChunk);
    trace_.transfer(round, kChunk * sizeof(double), [&] {
      MPI_CHECK(MPI_Sendrecv(chunk_begin(chunk), kChunk, MPI_DOUBLE, right, 0, arrived.data(),
                             kChunk, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    });
    bytes_sent_ += kChunk * sizeof(double);
    return arrived;
  }

  /// One line per rank: the first number of each of its chunks.
  void show(const std::string& what) {
    narrate_("{}", what);
    for (std::size_t rank = 0; rank < values_.size() / kChunk && !narrate_.silent(); ++rank) {
      std::string line;
      for (int chunk = 0; chunk < comm_.size(); ++chunk) {
        const double first = dist::all_gather_values(comm_, *chunk_begin(chunk))[rank];
        line += fmt::format(" {:0{}.0f}", first, std::min(comm_.size(), kDigits));
      }
      narrate_("  rank {} has chunks{}", rank, line);
    }
  }

  dist::Communicator& comm_;
  Recorder& trace_;
  const Narrator& narrate_;
  std::vector<double> values_;
  std::size_t bytes_sent_ = 0;
};

void run(dist::Communicator& comm, Recorder& trace) {
  Narrator narrate(comm);
  for (int time = 0; time < kSteps; ++time) {  // printed once; repeated for the time line
    Ring ring(comm, trace, narrate);
    const Tensor sum = Tensor::from(ring.values(), {std::ssize(ring.values())});
    trace.start();
    trace.forward_done();  // there is no network: the step is one "backward"
    comm.blocking_all_reduce(sum, "Communicator");
    ring.run();
    trace.backward_done();
    trace.finish();
    expect(on_all_ranks(sum.to_vector<double>() == ring.values(), comm),
           "expected the result of Communicator::all_reduce on every rank");
    narrate("equal to Communicator::all_reduce on all ranks");
    narrate.fall_silent();
  }
}

}  // namespace
}  // namespace brigade::labs

int main(int argc, char** argv) {
  return brigade::labs::run_lab("lab 7", brigade::labs::kQuiz, argc, argv, brigade::labs::run);
}
