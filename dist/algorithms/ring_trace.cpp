#include "dist/algorithms/ring_trace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/error.h"
#include "dist/algorithms/ring_all_reduce.h"

namespace brigade::dist {
namespace {

/// A double holds 15 digits; from the 16th rank on they are used again.
constexpr int kDigits = 15;

/// One rank's part of one step, as it was on that rank.
struct Noted {
  RingStep step;
  std::vector<double> chunks;  // one number each
};

std::vector<Noted> run_and_note(Communicator& comm, Device device) {
  const std::vector<double> mine(static_cast<std::size_t>(comm.size()),
                                 std::pow(10.0, comm.rank() % kDigits));
  const Tensor tensor = Tensor::from(mine, {comm.size()}, device);
  std::vector<Noted> noted;
  RingAllReduce ring([&noted](const RingStep& step, const Tensor& now) {
    noted.push_back({step, now.to_vector<double>()});
  });
  const Work work =
      comm.enqueue(tensor, "trace_ring", [&](Collectives& ranks) { ring.run(ranks, tensor); });
  comm.wait(work, device);
  return noted;
}

/// "001 001 101"
std::string digits(std::span<const double> chunks) {
  const auto width = static_cast<std::size_t>(std::min<std::size_t>(chunks.size(), kDigits));
  std::string text;
  for (const double chunk : chunks) {
    const std::string value = std::to_string(static_cast<std::int64_t>(chunk));
    text += message_of(text.empty() ? "" : " ",
                       std::string(width - std::min(width, value.size()), '0'), value);
  }
  return text;
}

std::string describe(int rank, int size, const RingStep& step, std::span<const double> chunks) {
  return message_of("  rank ", rank, " sends chunk ", step.sent, " to rank ", (rank + 1) % size,
                    step.gathering ? ", overwrites chunk " : ", adds chunk ", step.received,
                    " from rank ", (rank + size - 1) % size, "; has ", digits(chunks));
}

}  // namespace

std::vector<std::string> trace_ring(Communicator& comm, Device device) {
  const int size = comm.size();
  if (size == 1) {
    return {"ring: one rank has nothing to send; start several with mpirun -np N"};
  }
  std::vector<std::string> lines{
      message_of("ring: ", size, " ranks, ", size, " chunks; rank r starts with 10^r in each")};
  for (const Noted& mine : run_and_note(comm, device)) {
    if (mine.step.step == 0 && mine.step.gathering) {
      for (int rank = 0; rank < size; ++rank) {
        lines.push_back(
            message_of("  rank ", rank, " owns chunk ", (rank + 1) % size, ", finished"));
      }
    }
    lines.push_back(message_of(mine.step.gathering ? "all-gather" : "reduce-scatter", ", step ",
                               mine.step.step + 1, " of ", size - 1));
    const std::vector<RingStep> steps = all_gather_values(comm, mine.step);
    const std::vector<std::byte> bytes = comm.all_gather(std::as_bytes(std::span(mine.chunks)));
    std::vector<double> chunks(bytes.size() / sizeof(double));
    std::memcpy(chunks.data(), bytes.data(), bytes.size());
    for (int rank = 0; rank < size; ++rank) {
      const auto n = static_cast<std::size_t>(size);
      const auto at = static_cast<std::size_t>(rank);
      lines.push_back(describe(rank, size, steps[at], std::span(chunks).subspan(at * n, n)));
    }
  }
  return lines;
}

}  // namespace brigade::dist
