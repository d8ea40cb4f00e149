#include "apps/doctor/slow_link.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <set>

#include "core/runtime/context.h"
#include "dist/comm/communicator.h"

namespace brigade::apps {

namespace {

constexpr std::int64_t kBytes = std::int64_t{512} << 10U;  // more than shaped links pass at once

/// The lowest rank of each host.
std::vector<int> first_ranks(const dist::Placement& place, dist::Communicator& comm) {
  const std::vector<int> nodes = dist::all_gather_values(comm, place.node_rank);
  std::set<int> seen;
  std::vector<int> firsts;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (seen.insert(nodes[static_cast<std::size_t>(rank)]).second) {
      firsts.push_back(rank);
    }
  }
  return firsts;
}

/// With whom host `i` of `hosts`, which stand in a circle, exchanges in a round; -1: with nobody.
/// First (0, 1), (2, 3) ..., then (1, 2), (3, 4) ...; the last and the first find each other in the
/// second round, or in a third if their number is odd.
int partner(int round, int i, int hosts) {
  const bool odd = hosts % 2 == 1;
  if (round == 2) {
    const bool closes = odd && (i == 0 || i == hosts - 1);
    return closes ? hosts - 1 - i : -1;
  }
  const int other = (i % 2 == 0) == (round == 0) ? i + 1 : i - 1;
  const bool beyond = other < 0 || other >= hosts;
  return beyond && (odd || round == 0) ? -1 : (other + hosts) % hosts;
}

void exchange(int peer, const Tensor& outgoing, dist::Communicator& comm) {
  const Tensor incoming = Tensor::empty_like(outgoing);
  const auto both_ways = [peer, outgoing, incoming](dist::Collectives& ranks) {
    ranks.exchange(std::array{dist::Message{peer, outgoing}},
                   std::array{dist::Message{peer, incoming}});
  };
  comm.wait(comm.enqueue(outgoing, "link", both_ways), outgoing.device());
  compute_stream(outgoing.device()).synchronize();
}

/// The ms until both have all of a message, the shortest of four times: a send is over when the
/// system has the message, so each tells the other that it has arrived. One exchange before is not
/// counted: in it one waits for the other, and a link that was idle may take a burst faster.
double exchange_ms(int peer, Device device, dist::Communicator& comm) {
  const Tensor message = Tensor::zeros({kBytes}, DType::u8, device);
  double shortest = std::numeric_limits<double>::max();
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    exchange(peer, message, comm);
    exchange(peer, message.rows(0, 1), comm);
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin;
    shortest = i == 0 ? shortest : std::min(shortest, ms.count());
  }
  return shortest;
}

}  // namespace

std::optional<Straggler> find_slow_link(const dist::Placement& place, Device device,
                                        dist::Communicator& comm) {
  const std::vector<int> firsts = first_ranks(place, comm);
  const auto hosts = static_cast<int>(firsts.size());
  const auto me = std::ranges::find(firsts, comm.rank());
  double fastest = 0.0;
  for (int round = 0; hosts >= 3 && me != firsts.end() && round < 3; ++round) {
    const int other = partner(round, static_cast<int>(me - firsts.begin()), hosts);
    if (other >= 0) {
      const double ms = exchange_ms(firsts[static_cast<std::size_t>(other)], device, comm);
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

}  // namespace brigade::apps
