// Exercise 7: a ring for any length. Repair begin_of().
//
// A gradient's length is rarely a multiple of the number of ranks.
#include <algorithm>
#include <array>

#include "apps/labs/common.h"
#include "core/ops.h"
#include "dist/comm/gather.h"

namespace brigade::labs {
namespace {

/// First element of chunk `chunk`, in a tensor of `numel` elements cut into `count` chunks.
/// begin_of(count, count, numel) is the end of the last chunk.
std::int64_t begin_of(int chunk, int count, std::int64_t numel) {
  // TODO: this omits the last elements if numel is not a multiple of count.
  return chunk * (numel / count);
}

Tensor chunk_of(const Tensor& tensor, int chunk, int count) {
  const std::int64_t begin = begin_of(chunk, count, tensor.numel());
  return tensor.flat_view(begin, {begin_of(chunk + 1, count, tensor.numel()) - begin});
}

/// Lengths may differ by at most one element: the longest chunk sets the time of every step.
void check_chunks(std::int64_t numel, int count) {
  for (int chunk = 0; chunk < count; ++chunk) {
    const std::int64_t length = begin_of(chunk + 1, count, numel) - begin_of(chunk, count, numel);
    expect(length == numel / count || length == (numel + count - 1) / count,
           fmt::format("length {}: expected chunks of {} to {} elements, got {} in chunk {}", numel,
                       numel / count, (numel + count - 1) / count, length, chunk));
  }
}

/// tensor := sum over the ranks, in lab 7's two rounds.
void ring_all_reduce(dist::Collectives& ranks, const Tensor& tensor) {
  const int n = ranks.size();
  for (int step = 0; step < 2 * (n - 1); ++step) {
    const int sent = ((ranks.rank() - step) % n + n) % n;
    Tensor mine = chunk_of(tensor, (sent + n - 1) % n, n);
    const Tensor arrived = Tensor::zeros(mine.shape(), tensor.dtype());
    ranks.exchange(std::array{dist::Message{(ranks.rank() + 1) % n, chunk_of(tensor, sent, n)}},
                   std::array{dist::Message{(ranks.rank() + n - 1) % n, arrived}});
    ops::axpby(arrived, {.alpha = 1.0, .beta = step < n - 1 ? 1.0 : 0.0}, mine);
  }
}

/// All ranks must end with the sum of 1, 2, ..., N in every element.
void check_length(std::int64_t numel, dist::Communicator& comm) {
  const Tensor values = Tensor::zeros({numel}, DType::f64);
  std::fill_n(values.data<double>(), numel, comm.rank() + 1.0);
  comm.wait(comm.enqueue(values, "ring",
                         [=](dist::Collectives& ranks) { ring_all_reduce(ranks, values); }));
  const double expected = comm.size() * (comm.size() + 1) / 2.0;
  for (std::int64_t i = 0; i < numel; ++i) {
    for (const double got : dist::all_gather_values(comm, values.data<double>()[i])) {
      expect(got == expected,
             fmt::format("length {}: expected {} in element {}, got {}", numel, expected, i, got));
    }
  }
  say(comm, "length {}: {} in every element, on all ranks", numel, expected);
}

}  // namespace

void run(dist::Communicator& comm, Recorder& /*trace*/) {
  const std::int64_t ranks = comm.size();
  for (const std::int64_t numel : {ranks, 2 * ranks + 1, 10 * ranks - 1, std::int64_t{1}}) {
    check_length(numel, comm);
    check_chunks(numel, comm.size());
  }
}

}  // namespace brigade::labs
