#include <algorithm>
#include <array>
#include <chrono>

#include "apps/doctor/doctor.h"
#include "core/runtime/context.h"
#include "dist/launch/clock_alignment.h"

namespace brigade::apps {

namespace {

constexpr std::int64_t kSmall = 8;
constexpr std::int64_t kLarge = std::int64_t{2} << 20U;

using Ms = std::chrono::duration<double, std::milli>;
using std::chrono::steady_clock;

/// The time of day minus rank 0's. clock_alignment.h compares steady clocks, whose zero is the
/// host's start; each rank adds what lies between its two clocks.
double wall_clock_offset_ms(dist::Communicator& comm) {
  const double steady_ms = measure_clock_offset(comm, /*rounds=*/10).ms;
  const Ms between = Ms(std::chrono::system_clock::now().time_since_epoch()) -
                     Ms(steady_clock::now().time_since_epoch());
  return steady_ms + between.count() - dist::all_gather_values(comm, between.count())[0];
}

/// This rank sends `bytes` to the next one of `ring` and then as many back to the previous one.
/// The µs of one forth and back, the shortest of many: a busy host only adds time. The first is not
/// counted: a link that was idle may take a burst faster. 0 for a rank outside of the ring.
double forth_and_back_us(const std::vector<int>& ring, std::int64_t bytes, dist::Communicator& comm,
                         Device device) {
  const auto at = static_cast<std::size_t>(std::ranges::find(ring, comm.rank()) - ring.begin());
  if (at == ring.size() || ring.size() == 1) {
    return 0.0;
  }
  const std::array peers{ring[(at + 1) % ring.size()], ring[(at + ring.size() - 1) % ring.size()]};
  const Tensor outgoing = Tensor::zeros({bytes}, DType::u8, device);
  const Tensor incoming = Tensor::zeros({bytes}, DType::u8, device);
  double shortest = 0.0;
  for (int i = 0; i < (bytes == kSmall ? 20 : 4); ++i) {
    const auto begin = steady_clock::now();
    for (const std::size_t to : {0U, 1U}) {
      const auto exchange = [&](dist::Collectives& ranks) {
        ranks.exchange(std::array{dist::Message{peers.at(to), outgoing}},
                       std::array{dist::Message{peers.at(1 - to), incoming}});
      };
      comm.wait(comm.enqueue(outgoing, "doctor", exchange), device);
      compute_stream(device).synchronize();
    }
    const double us = 1e3 * Ms(steady_clock::now() - begin).count();
    shortest = i < 2 ? us : std::min(shortest, us);
  }
  return shortest;
}

AlphaBeta measure(const std::vector<int>& ring, dist::Communicator& comm, Device device) {
  // Forth and back take 2 α + 2 S β, as an all-reduce of 2 S bytes by a ring of 2 ranks does.
  std::vector<MeasuredTime> times;
  for (const std::int64_t bytes : {kSmall, kLarge}) {
    times.push_back(
        {2.0 * static_cast<double>(bytes), forth_and_back_us(ring, bytes, comm, device)});
  }
  return times[0].us > 0.0 ? fit_alpha_beta(times, 2).value_or(AlphaBeta{}) : AlphaBeta{};
}

}  // namespace

void measure_links(const std::vector<RankFacts>& ranks, Device device, dist::Communicator& comm,
                   RankFacts& mine) {
  std::vector<int> on_my_host;
  std::vector<int> first_of_hosts;
  for (const RankFacts& rank : ranks) {
    if (rank.node == mine.node) {
      on_my_host.push_back(rank.rank);
    }
    if (rank.node == std::ssize(first_of_hosts)) {  // numbered in this order
      first_of_hosts.push_back(rank.rank);
    }
  }
  mine.clock_ms = wall_clock_offset_ms(comm);
  mine.same_host = measure(on_my_host, comm, device);
  mine.between_hosts = measure(first_of_hosts, comm, device);
}

}  // namespace brigade::apps
