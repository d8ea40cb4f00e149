#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/plan/planned_step.h"
#include "dist/comm/emulated_link_communicator.h"
#include "dist/planning/link_times.h"

namespace brigade::apps {

/// How long it takes to pass a message of so many bytes on to a neighbour.
using MessageCost = std::function<CollectiveCost(double bytes)>;

/// α + bytes β; uses no processor time.
MessageCost message_cost(const dist::LinkModel& link);

/// From all-reduces measured on `ranks` of them: T(S) of a ring is 2 (N-1) messages of S/N bytes.
/// If they were no ring: the messages of the ring that takes the same time.
MessageCost message_cost(dist::LinkTimes all_reduces, int ranks);

/// A cluster of equal hosts.
struct Cluster {
  MessageCost between_hosts;
  MessageCost inside_host;
  std::int64_t ranks_per_host = 1;
};

/// The algorithms whose cost all_reduce_cost knows.
const std::vector<std::string>& costed_algorithms();

/// An all-reduce of `bytes` on `ranks`, by `algorithm`, one of costed_algorithms(): the formulas of
/// dist/algorithms, with a message's cost in place of α + mβ. Ranks of a host share its link to the
/// others; of the algorithms only ring and hierarchical know hosts of several ranks.
CollectiveCost all_reduce_cost(const Cluster& cluster, const std::string& algorithm, int ranks,
                               double bytes);

}  // namespace brigade::apps
