#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dist/algorithms/all_reduce.h"
#include "dist/algorithms/ring_all_reduce.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// An all-reduce for ranks in a grid of k nodes with m ranks each, whose links within a node are
/// faster than those between nodes. Three steps, each in a part of the group:
///
///                    node 0                node 1
///                    rank a    rank b      rank a    rank b
///   reduce-scatter   [A.] <--> [.B]        [A.] <--> [.B]     in each node: own share summed
///   sum                |         +---------- | -------->+     ranks with one local rank, across
///                      +--------------------->                nodes: share summed over all
///   all-gather       [AB] <--> [AB]        [AB] <--> [AB]     in each node: shares put together
///
/// With S bytes, latency α and time per byte β of the network, and γ of memory:
///
///   T = 2 (m-1)/m S γ  +  2 (k-1) α + 2 (k-1)/k S/m β
///
/// A flat ring over all N = k m ranks takes 2 (N-1) α + 2 (N-1)/N S β. The network sees as many
/// bytes per node either way, about 2 S, but here in 2 (k-1) steps instead of 2 (N-1), and all m
/// ranks of a node drive it at once.
class HierarchicalAllReduce final : public AllReduce {
 public:
  /// `node`: the ranks of this node; it must execute its collectives where run() is called, and
  /// block. `across`: the ranks with this rank's place in every node, in ascending order; all nodes
  /// have equally many ranks (check_equal_nodes). These exchange through the group that run() is
  /// given, so an error names a rank by its number there.
  HierarchicalAllReduce(std::unique_ptr<Communicator> node, std::vector<int> across);

  std::string name() const override;
  void run(Collectives& ranks, const Tensor& tensor) override;
  Tensor make_buffer(const Shape& shape, DType dtype, Device device) override;
  void abandon() noexcept override { node_->abandon(); }
  std::uint64_t bytes_sent() const override { return node_->bytes_sent(); }

 private:
  std::unique_ptr<Communicator> node_;
  std::vector<int> across_;
  RingAllReduce ring_;
};

}  // namespace brigade::dist
