#include "dist/comm/placement.h"

#include <algorithm>
#include <cstddef>

#include "core/error.h"

namespace brigade::dist {

Placement placement_of(int rank, std::span<const int> host_of) {
  const int host = host_of[static_cast<std::size_t>(rank)];
  Placement placement{.local_rank = 0, .local_size = 0, .node_rank = 0, .hosts = 0};
  for (std::size_t other = 0; other < host_of.size(); ++other) {
    const bool on_my_node = host_of[other] == host;
    placement.local_size += on_my_node ? 1 : 0;
    placement.local_rank += on_my_node && static_cast<int>(other) < rank ? 1 : 0;
    const auto before = host_of.first(other);
    if (std::find(before.begin(), before.end(), host_of[other]) == before.end()) {
      placement.node_rank = on_my_node ? placement.hosts : placement.node_rank;
      ++placement.hosts;
    }
  }
  return placement;
}

void check_equal_nodes(std::span<const int> host_of) {
  const Placement first = placement_of(0, host_of);
  for (int rank = 1; rank < static_cast<int>(host_of.size()); ++rank) {
    const Placement other = placement_of(rank, host_of);
    if (other.local_size != first.local_size) {
      throw UsageError(
          fmt::format("comm: hierarchical needs equally many ranks on every host, but that of rank "
                      "0 has {} and that of rank {} has {}; start as many on each (mpirun --map-by "
                      "ppr:N:node) or use another --comm",
                      first.local_size, rank, other.local_size));
    }
  }
}

}  // namespace brigade::dist
