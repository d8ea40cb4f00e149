#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/comm/communicator.h"
#include "dist/comm/emulated_link.h"

namespace brigade::dist {

/// A communicator whose collectives take at least as long as a ring over `link` would take, counted
/// from the moment the last rank begins. The communication stream sleeps until then and leaves the
/// cores to the computation. A collective that really takes longer stays as it is. The link is part
/// of description(), so that no emulated number passes for a measured one.
///
/// Every rank wraps its communicator with the same link, before the first all_reduce. UsageError on
/// a GPU, where the host does not see collectives begin and end.
class EmulatedLinkCommunicator final : public Communicator {
 public:
  EmulatedLinkCommunicator(std::unique_ptr<Communicator> inner, const LinkModel& link);
  /// Collectives in flight call this, so it waits for them: the inner communicator's destructor
  /// does, or abandons them.
  ~EmulatedLinkCommunicator() override { owned_.reset(); }
  EmulatedLinkCommunicator(const EmulatedLinkCommunicator&) = delete;
  EmulatedLinkCommunicator& operator=(const EmulatedLinkCommunicator&) = delete;

  bool sums_in_rank_order() const override { return inner_.sums_in_rank_order(); }
  void barrier() override { inner_.barrier(); }
  std::vector<std::byte> all_gather(std::span<const std::byte> mine) override {
    return inner_.all_gather(mine);
  }
  void broadcast(std::span<std::byte> bytes, int root) override { inner_.broadcast(bytes, root); }
  void abandon() noexcept override;
  std::unique_ptr<Communicator> split(int color, int key) override {
    return inner_.split(color, key);
  }

 protected:
  std::string transport() const override { return inner_.transport() + ", " + link_.description(); }
  void execute(const std::function<void(Collectives&)>& collective) override;
  Tensor do_make_buffer(const Shape& shape, DType dtype, Device device) override {
    return inner_.make_buffer(shape, dtype, device);
  }
  Stream& comm_stream() override { return inner_.comm_stream(); }
  void do_sum(const Tensor& tensor) override { inner_.host_collectives().sum(tensor); }
  void do_exchange(std::span<const Message> outgoing, std::span<const Message> incoming) override {
    inner_.host_collectives().exchange(outgoing, incoming);
  }
  void do_reporting_exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                             const OnArrival& on_arrival) override {
    inner_.host_collectives().exchange(outgoing, incoming, on_arrival);
  }

 private:
  std::unique_ptr<Communicator> owned_;
  Communicator& inner_ = *owned_;  // also while it goes
  LinkModel link_;
};

}  // namespace brigade::dist
