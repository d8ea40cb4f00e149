#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// A network that is not there: how long an all-reduce would take over it. Each rank has one link
/// of its own, on which it sends and receives at the same time.
struct LinkModel {
  double alpha_us = 0.0;         ///< latency: from the first byte leaving a rank to its arrival
  double gigabytes_per_s = 1.0;  ///< bandwidth in each direction, in GB/s (10⁹ bytes)

  /// The α-β cost of a ring all-reduce over N ranks: N-1 steps of reduce-scatter and N-1 of
  /// all-gather, in each of which every rank passes 1/N of the bytes on to its neighbour,
  ///
  ///   T = 2 (N-1) α + 2 (N-1)/N · bytes / bandwidth
  ///
  /// The second term is the least any algorithm can do (Patarasuk & Yuan 2009, J. Parallel
  /// Distrib. Comput. 69); the first is what the ring pays for it (Thakur, Rabenseifner & Gropp
  /// 2005, Int. J. High Perform. Comput. Appl. 19). Adding the numbers up is taken to be free.
  /// Here `bytes_sent` stands for the bytes of the second term: less when gradients are compressed.
  double ring_ms(int ranks, double bytes_sent) const {
    return 2.0 * (ranks - 1) * alpha_us * 1e-3 + bytes_sent / (gigabytes_per_s * 1e6);
  }

  /// "emulated link 50 us, 1 GB/s"
  std::string description() const {
    return fmt::format("emulated link {:g} us, {:g} GB/s", alpha_us, gigabytes_per_s);
  }
};

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

  bool sums_in_rank_order() const override { return inner_.sums_in_rank_order(); }
  void barrier() override { inner_.barrier(); }
  std::vector<std::byte> all_gather_bytes(std::span<const std::byte> mine) override {
    return inner_.all_gather_bytes(mine);
  }
  void broadcast(std::span<std::byte> bytes, int root) override { inner_.broadcast(bytes, root); }
  void abandon() noexcept override;
  std::unique_ptr<Communicator> split(int color, int key) override {
    return inner_.split(color, key);
  }

 protected:
  std::string transport() const override { return inner_.transport() + ", " + link_.description(); }
  Tensor do_make_buffer(const Shape& shape, DType dtype, Device device) override {
    return inner_.make_buffer(shape, dtype, device);
  }
  Stream& comm_stream() override { return inner_.comm_stream(); }
  void do_sum(const Tensor& tensor) override { inner_.host_collectives().sum(tensor); }
  void do_exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                   const OnArrival& arrived) override {
    inner_.host_collectives().exchange(outgoing, incoming, arrived);
  }

 private:
  void run_delayed(const Collective& collective);

  std::unique_ptr<Communicator> owned_;
  Communicator& inner_ = *owned_;  // also while it goes
  LinkModel link_;
};

}  // namespace brigade::dist
