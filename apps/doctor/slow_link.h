#pragma once

#include <optional>
#include <vector>

#include "apps/metrics/timing_summary.h"
#include "dist/launch/placement.h"

namespace brigade::apps {

/// The host whose links are slower than those of the others, if there is one: a message to the next
/// or to the previous host takes at least half as long again as the others' median. Named by its
/// first rank. Of fewer than three hosts nobody can tell whose link it is.
///
/// Neighbours exchange messages pair by pair, in three rounds however many hosts there are. Takes
/// less than a second on links of 100 Mbit/s and more. Collective over `comm`, which carries the
/// gradients of tensors on `device`.
std::optional<Straggler> find_slow_link(const dist::Placement& place, Device device,
                                        dist::Communicator& comm);

/// The same from `ms`: for each rank the time of its host's faster link, 0 where it took no part.
std::optional<Straggler> slow_link_of(const std::vector<double>& ms);

}  // namespace brigade::apps
