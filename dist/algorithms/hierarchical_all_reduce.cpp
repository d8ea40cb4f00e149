#include "dist/algorithms/hierarchical_all_reduce.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/error.h"

namespace brigade::dist {
namespace {

/// Some ranks of a group as a group of their own, numbered by their place among `members`.
class Members final : public Collectives {
 public:
  Members(Collectives& all, const std::vector<int>& members, AllReduce& algorithm)
      : Collectives(static_cast<int>(std::ranges::find(members, all.rank()) - members.begin()),
                    static_cast<int>(members.size())),
        all_(all),
        members_(members),
        algorithm_(algorithm) {}

 protected:
  void do_sum(const Tensor& tensor) override { algorithm_.run(*this, tensor); }
  void do_exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                   const OnArrival& arrived) override {
    all_.exchange(renumbered(outgoing), renumbered(incoming), arrived);
  }

 private:
  std::vector<Message> renumbered(std::span<const Message> messages) const {
    std::vector<Message> result(messages.begin(), messages.end());
    for (Message& message : result) {
      message.peer = members_[static_cast<std::size_t>(message.peer)];
    }
    return result;
  }

  Collectives& all_;
  const std::vector<int>& members_;
  AllReduce& algorithm_;
};

}  // namespace

HierarchicalAllReduce::HierarchicalAllReduce(std::unique_ptr<Communicator> node,
                                             std::vector<int> across)
    : node_(std::move(node)), across_(std::move(across)) {}

std::string HierarchicalAllReduce::name() const {
  return fmt::format("hierarchical {} x {}: ring between nodes, {} inside", across_.size(),
                     node_->size(), node_->description());
}

void HierarchicalAllReduce::run(Collectives& ranks, const Tensor& tensor) {
  BRIGADE_CHECK(node_->size() * static_cast<int>(across_.size()) == ranks.size(),
                "hierarchical: {} nodes of {} ranks, but the group has {}", across_.size(),
                node_->size(), ranks.size());
  node_->host_collectives().reduce_scatter(tensor);
  // Equal shares on all nodes: they have equally many ranks and the tensor is as long everywhere.
  Members(ranks, across_, ring_).sum(share_of(tensor, node_->rank(), node_->size()));
  node_->host_collectives().all_gather(tensor);
}

Tensor HierarchicalAllReduce::make_buffer(const Shape& shape, DType dtype, Device device) {
  return node_->make_buffer(shape, dtype, device);
}

}  // namespace brigade::dist
