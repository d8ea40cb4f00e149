#pragma once

#include <span>

namespace brigade::dist {

/// Where a rank stands on its host, also called a node, and that node among the others. mpirun may
/// deal ranks out to hosts one by one, so nothing follows from the rank alone.
struct Placement {
  int local_rank = 0;  ///< among the ranks of this node, in rank order
  int local_size = 1;
  int node_rank = 0;  ///< nodes are numbered in the order of their lowest ranks
  int hosts = 1;      ///< number of nodes
};

/// `host_of[r]` is any number that tells the host of rank r from the other hosts.
Placement placement_of(int rank, std::span<const int> host_of);

/// UsageError unless all nodes have equally many ranks, as a layout of nodes x ranks needs.
void check_equal_nodes(std::span<const int> host_of);

}  // namespace brigade::dist
