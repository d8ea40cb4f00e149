// Exercise 7: a ring for any length. Repair begin_of().
//
// A gradient's length is rarely a multiple of the number of ranks.
#include <mpi.h>

#include <cmath>

#include "apps/labs/common.h"
#include "core/error.h"
#include "dist/comm/mpi_check.h"

namespace brigade::labs {
namespace {

/// First element of chunk `chunk`, in a tensor of `numel` elements cut into `count` chunks.
/// begin_of(count, count, numel) is the end of the last chunk.
int begin_of(int chunk, int count, int numel) {
  // TODO: this omits the last elements if numel is not a multiple of count.
  return chunk * (numel / count);
}

/// values := sum over the ranks, in lab 7's two rounds.
void ring_all_reduce(std::vector<double>& values, const dist::Communicator& comm) {
  const int ranks = comm.size();
  const int right = (comm.rank() + 1) % ranks;
  const int left = (comm.rank() + ranks - 1) % ranks;
  const auto numel = static_cast<int>(values.size());
  std::vector<double> received(values.size());

  for (int step = 0; step < 2 * (ranks - 1); ++step) {
    const int sent = ((comm.rank() - step) % ranks + ranks) % ranks;
    const int arriving = (sent + ranks - 1) % ranks;
    const int begin = begin_of(arriving, ranks, numel);
    const int end = begin_of(arriving + 1, ranks, numel);
    const int send_begin = begin_of(sent, ranks, numel);
    const int send_end = begin_of(sent + 1, ranks, numel);
    MPI_CHECK(MPI_Sendrecv(values.data() + send_begin, send_end - send_begin, MPI_DOUBLE, right, 0,
                           received.data(), end - begin, MPI_DOUBLE, left, 0, MPI_COMM_WORLD,
                           MPI_STATUS_IGNORE));
    const bool adds = step < ranks - 1;
    for (int i = begin; i < end; ++i) {
      double& value = values[static_cast<std::size_t>(i)];
      value = received[static_cast<std::size_t>(i - begin)] + (adds ? value : 0.0);
    }
  }
}

/// All ranks must end with the sum of 1, 2, ..., N in every element.
void check_length(std::size_t numel, dist::Communicator& comm) {
  std::vector<double> values(numel, comm.rank() + 1.0);
  ring_all_reduce(values, comm);
  const double expected = comm.size() * (comm.size() + 1) / 2.0;
  for (std::size_t i = 0; i < numel; ++i) {
    for (const double got : dist::all_gather_values(comm, values[i])) {
      expect(got == expected,
             fmt::format("length {}: expected {} in element {}, got {}", numel, expected, i, got));
    }
  }
  say(comm, "length {}: {} in every element, on all ranks", numel, expected);
}

void run(dist::Communicator& comm) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  for (const std::size_t numel : {ranks, 2 * ranks + 1, 10 * ranks - 1, std::size_t{1}}) {
    check_length(numel, comm);
  }
}

}  // namespace
}  // namespace brigade::labs

int main(int argc, char** argv) {
  return brigade::labs::run_exercise("exercise 7", argc, argv, brigade::labs::run,
                                     "chunks that together cover every element");
}
