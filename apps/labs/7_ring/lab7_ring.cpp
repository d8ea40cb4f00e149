// Lab 7: what an all-reduce does inside: the ring, step by step.
//
// The tensor is cut into N chunks, and the N ranks stand in a circle. In every step each rank sends
// one chunk to its right neighbour and receives one from its left, all at the same time. With all
// numbers modulo N:
//
//   reduce-scatter, s = 0 ... N-2: rank r sends chunk r - s, adds what arrives to chunk r - s - 1.
//                                  Afterwards rank r owns the finished sum of chunk r + 1.
//   all-gather,     s = 0 ... N-2: rank r sends chunk r + 1 - s, which is finished, and overwrites
//                                  chunk r - s with the finished one that arrives.
//
// Each rank sends 2 (N - 1) / N of the tensor, however many ranks there are, and each link is busy
// in every step.
#include <mpi.h>

#include <algorithm>
#include <cmath>

#include "apps/labs/common.h"
#include "dist/mpi_check.h"

namespace brigade::labs {
namespace {

constexpr std::size_t kChunk = 1000;  ///< numbers in a chunk
constexpr int kDigits = 15;

class Ring {
 public:
  /// Rank r contributes 10^r everywhere: the digits of a sum tell whose numbers are in it. From 15
  /// on they are used again, because a double has room for no more.
  explicit Ring(dist::Communicator& comm)
      : comm_(comm),
        values_(kChunk * static_cast<std::size_t>(comm.size()),
                std::pow(10.0, comm.rank() % kDigits)) {}

  void run() {
    const int rank = comm_.rank();
    show("before");
    for (int s = 0; s + 1 < comm_.size(); ++s) {
      const std::vector<double> arrived = exchange(rank - s);
      double* chunk = chunk_begin(rank - s - 1);
      for (std::size_t i = 0; i < kChunk; ++i) {
        chunk[i] += arrived[i];
      }
      show(fmt::format("reduce-scatter, s = {}: rank r sent chunk r{:+}", s, -s));
    }
    for (int owner = 0; owner < comm_.size(); ++owner) {
      say(comm_, "rank {} owns the sum of chunk {}", owner, (owner + 1) % comm_.size());
    }
    for (int s = 0; s + 1 < comm_.size(); ++s) {
      const std::vector<double> arrived = exchange(rank + 1 - s);
      std::copy(arrived.begin(), arrived.end(), chunk_begin(rank - s));
      show(fmt::format("all-gather, s = {}: rank r sent chunk r{:+}", s, 1 - s));
    }
  }

  const std::vector<double>& values() const { return values_; }
  std::size_t bytes_sent() const { return bytes_sent_; }

 private:
  double* chunk_begin(int chunk) {
    const int size = comm_.size();
    return values_.data() + static_cast<std::size_t>((chunk % size + size) % size) * kChunk;
  }

  /// Sends chunk number `chunk` to the right; returns what came from the left. One call for both:
  /// if all ranks sent first and received afterwards, all could be waiting for a receiver.
  std::vector<double> exchange(int chunk) {
    const int right = (comm_.rank() + 1) % comm_.size();
    const int left = (comm_.rank() + comm_.size() - 1) % comm_.size();
    std::vector<double> arrived(kChunk);
    MPI_CHECK(MPI_Sendrecv(chunk_begin(chunk), kChunk, MPI_DOUBLE, right, 0, arrived.data(), kChunk,
                           MPI_DOUBLE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    bytes_sent_ += kChunk * sizeof(double);
    return arrived;
  }

  /// One line per rank: the first number of each of its chunks.
  void show(const std::string& what) {
    say(comm_, "{}", what);
    std::vector<std::string> lines(static_cast<std::size_t>(comm_.size()));
    for (int chunk = 0; chunk < comm_.size(); ++chunk) {
      const std::vector<double> of_ranks = dist::all_gather_values(comm_, *chunk_begin(chunk));
      for (std::size_t rank = 0; rank < lines.size(); ++rank) {
        lines[rank] += fmt::format(" {:0{}.0f}", of_ranks[rank], std::min(comm_.size(), kDigits));
      }
    }
    for (std::size_t rank = 0; rank < lines.size(); ++rank) {
      say(comm_, "  rank {} has chunks{}", rank, lines[rank]);
    }
  }

  dist::Communicator& comm_;
  std::vector<double> values_;
  std::size_t bytes_sent_ = 0;
};

void run(dist::Communicator& comm) {
  Ring ring(comm);
  const Tensor expected =
      Tensor::from(ring.values(), {static_cast<std::int64_t>(ring.values().size())});
  comm.blocking_all_reduce(expected);
  ring.run();
  const int equal = expected.to_vector<double>() == ring.values() ? 1 : 0;
  const std::vector<int> of_ranks = dist::all_gather_values(comm, equal);
  expect(std::count(of_ranks.begin(), of_ranks.end(), 1) == comm.size(),
         "expected the result of Communicator::all_reduce on every rank");
  say(comm, "equal to Communicator::all_reduce on all ranks; each sent {} of the tensor's {} bytes",
      ring.bytes_sent(), expected.nbytes());
}

}  // namespace
}  // namespace brigade::labs

int main() {
  return brigade::labs::run_lab("lab 7", brigade::labs::run);
}
