#include "dist/elastic/catch_up.h"

#include <algorithm>
#include <vector>

#include "dist/comm/gather.h"

namespace brigade::dist {

std::int64_t catch_up(std::int64_t mine, const TrainingState& state, Communicator& comm) {
  const std::vector<std::int64_t> steps = all_gather_values(comm, mine);
  const auto furthest = std::ranges::max_element(steps);
  if (std::ranges::count(steps, *furthest) != std::ssize(steps)) {
    broadcast_state(state, comm, static_cast<int>(furthest - steps.begin()));
  }
  return *furthest;
}

}  // namespace brigade::dist
