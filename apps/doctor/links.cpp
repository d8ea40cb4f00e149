#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <set>
#include <thread>

#include "apps/doctor/doctor.h"
#include "core/runtime/context.h"
#include "dist/comm/gather.h"
#include "dist/launch/clock_alignment.h"

namespace brigade::apps {

namespace {

constexpr std::int64_t kSmall = 8;
constexpr std::int64_t kLarge = std::int64_t{1} << 20U;

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

/// Sends `outgoing` to one rank and receives as much from another; -1: to and from nobody.
void exchange(int to, int from, const Tensor& outgoing, dist::Communicator& comm) {
  const Tensor incoming = Tensor::empty_like(outgoing);
  const std::size_t messages = to < 0 ? 0 : 1;
  const auto both = [=](dist::Collectives& ranks) {
    const std::array out{dist::Message{to, outgoing}};
    const std::array in{dist::Message{from, incoming}};
    ranks.exchange(std::span(out).first(messages), std::span(in).first(messages));
  };
  comm.wait(comm.enqueue(outgoing, "link", both));
  compute_stream(outgoing.device()).synchronize();
}

/// This rank sends `bytes` to the next one of `ring` and then as many back to the previous one.
/// The ms of one forth and back, the shortest of many: a busy host only adds time. The first is not
/// counted: a link that was idle may take a burst faster.
double forth_and_back_ms(const std::vector<int>& ring, std::int64_t bytes, dist::Communicator& comm,
                         Device device) {
  const auto at = static_cast<std::size_t>(std::ranges::find(ring, comm.rank()) - ring.begin());
  const int next = ring[(at + 1) % ring.size()];
  const int previous = ring[(at + ring.size() - 1) % ring.size()];
  const Tensor outgoing = Tensor::zeros({bytes}, DType::u8, device);
  double shortest = 0.0;
  for (int i = 0; i < (bytes == kSmall ? 20 : 3); ++i) {
    const auto begin = steady_clock::now();
    exchange(next, previous, outgoing, comm);
    exchange(previous, next, outgoing, comm);
    const double ms = Ms(steady_clock::now() - begin).count();
    shortest = i < 2 ? ms : std::min(shortest, ms);
  }
  return shortest;
}

/// Of a rank outside of the ring, and of a ring of one: nothing.
/// Measured three times, the shortest counts: to ranks that share a core for a moment, a small
/// message takes as long as a large one.
AlphaBeta measure(const std::vector<int>& ring, dist::Communicator& comm, Device device) {
  if (ring.size() < 2 || std::ranges::count(ring, comm.rank()) == 0) {
    return {};
  }
  // Forth and back take 2 α + 2 S β, as an all-reduce of 2 S bytes by a ring of 2 ranks does.
  constexpr double kNever = std::numeric_limits<double>::max();
  std::array times{dist::LinkPoint{2.0 * kSmall, kNever}, dist::LinkPoint{2.0 * kLarge, kNever}};
  for (int i = 0; i < 3; ++i) {
    times[0].ms = std::min(times[0].ms, forth_and_back_ms(ring, kSmall, comm, device));
    times[1].ms = std::min(times[1].ms, forth_and_back_ms(ring, kLarge, comm, device));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return fit_alpha_beta(times, 2).value_or(AlphaBeta{});
}

/// The lowest rank of each host, in the order of the ranks.
std::vector<int> first_ranks(int my_node, dist::Communicator& comm) {
  const std::vector<int> nodes = dist::all_gather_values(comm, my_node);
  std::set<int> seen;
  std::vector<int> firsts;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (seen.insert(nodes[static_cast<std::size_t>(rank)]).second) {
      firsts.push_back(rank);
    }
  }
  return firsts;
}

/// The ms until this rank and `peer` have all of a message of the other, the shortest of four
/// times. A send is over when the system has the message, so each tells the other that it has
/// arrived. One exchange before is not counted: in it one waits for the other.
double exchange_ms(int peer, Device device, dist::Communicator& comm) {
  constexpr std::int64_t kBytes = std::int64_t{512} << 10U;  // more than shaped links pass at once
  const Tensor message = Tensor::zeros({kBytes}, DType::u8, device);
  double shortest = std::numeric_limits<double>::max();
  for (int i = 0; i < 5; ++i) {
    const auto begin = steady_clock::now();
    exchange(peer, peer, message, comm);
    exchange(peer, peer, message.rows(0, 1), comm);
    const double ms = Ms(steady_clock::now() - begin).count();
    shortest = i == 0 ? shortest : std::min(shortest, ms);
  }
  return shortest;
}

}  // namespace

// The hosts stand in a circle, and link i joins host i and the next one. Links 0, 2 ... are busy in
// the first round and 1, 3 ... in the second. If their number is odd, the last has a round of its
// own. Ranks that have no link in a round exchange nothing, because all make the same calls.
std::optional<Straggler> find_slow_link(const dist::Placement& place, Device device,
                                        dist::Communicator& comm) {
  const std::vector<int> firsts = first_ranks(place.node_rank, comm);
  const std::size_t hosts = firsts.size();
  if (hosts < 3) {
    return {};
  }
  const auto me = static_cast<std::size_t>(std::ranges::find(firsts, comm.rank()) - firsts.begin());
  const auto round_of = [hosts](std::size_t link) {
    return hosts % 2 == 1 && link == hosts - 1 ? 2U : link % 2;
  };
  double fastest = 0.0;
  for (std::size_t round = 0; round < 2 + hosts % 2; ++round) {
    int peer = -1;
    if (me < hosts) {
      const std::size_t next = (me + 1) % hosts;
      const std::size_t previous = (me + hosts - 1) % hosts;
      peer = round_of(me) == round         ? firsts[next]
             : round_of(previous) == round ? firsts[previous]
                                           : -1;
    }
    const double ms = exchange_ms(peer, device, comm);
    if (peer >= 0) {
      fastest = fastest == 0.0 ? ms : std::min(fastest, ms);
    }
  }
  return slow_link_of(dist::all_gather_values(comm, fastest));
}

std::optional<Straggler> slow_link_of(const std::vector<double>& ms) {
  constexpr double kSlower = 1.5;
  constexpr double kLeast = 1.0;  // ms; a fast link differs by more than half by chance
  const auto longest = std::ranges::max_element(ms);
  std::vector<double> others;
  for (auto each = ms.begin(); each != ms.end(); ++each) {
    if (*each > 0.0 && each != longest) {
      others.push_back(*each);
    }
  }
  const double usual = quantile(others, 0.5);
  if (others.size() < 2 || *longest < std::max(kSlower * usual, usual + kLeast)) {
    return {};
  }
  return Straggler{.rank = static_cast<int>(longest - ms.begin()),
                   .reason = Straggler::Reason::network,
                   .ms = *longest,
                   .others = usual};
}

void measure_links(const std::vector<RankFacts>& ranks, Device device, dist::Communicator& comm,
                   RankFacts& mine) {
  std::vector<int> on_my_host;
  for (const RankFacts& rank : ranks) {
    if (rank.node == mine.node) {
      on_my_host.push_back(rank.rank);
    }
  }
  mine.clock_ms = wall_clock_offset_ms(comm);
  mine.same_host = measure(on_my_host, comm, device);
  mine.between_hosts = measure(first_ranks(mine.node, comm), comm, device);
}

}  // namespace brigade::apps
