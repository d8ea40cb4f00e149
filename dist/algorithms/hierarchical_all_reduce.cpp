#include "dist/algorithms/hierarchical_all_reduce.h"

#include <utility>

#include "core/error.h"

namespace brigade::dist {

HierarchicalAllReduce::HierarchicalAllReduce(std::unique_ptr<Communicator> node,
                                             std::unique_ptr<Communicator> across)
    : node_(std::move(node)), across_(std::move(across)) {}

std::string HierarchicalAllReduce::name() const {
  return message_of("hierarchical ", across_->size(), " x ", node_->size(), ": ",
                    across_->description(), " between nodes, ", node_->description(), " inside");
}

void HierarchicalAllReduce::run(Collectives& ranks, const Tensor& tensor) {
  BRIGADE_CHECK(node_->size() * across_->size() == ranks.size(), "hierarchical: ", across_->size(),
                " nodes of ", node_->size(), " ranks, but the group has ", ranks.size());
  node_->host_collectives().reduce_scatter(tensor);
  // Equal shares on all nodes: they have equally many ranks and the tensor is as long everywhere.
  across_->host_collectives().sum(share_of(tensor, node_->rank(), node_->size()));
  node_->host_collectives().all_gather(tensor);
}

Tensor HierarchicalAllReduce::make_buffer(const Shape& shape, DType dtype, Device device) {
  return node_->make_buffer(shape, dtype, device);
}

void HierarchicalAllReduce::abandon() noexcept {
  node_->abandon();
  across_->abandon();
}

std::uint64_t HierarchicalAllReduce::bytes_sent() const {
  return node_->bytes_sent() + across_->bytes_sent();
}

}  // namespace brigade::dist
