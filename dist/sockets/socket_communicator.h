#pragma once

#include <memory>

#include "dist/algorithms/ring_all_reduce.h"
#include "dist/comm/communicator.h"
#include "dist/sockets/socket_mesh.h"

namespace brigade::dist {

/// Exchanges CPU tensors through TCP sockets (socket_mesh.h). Sums with the ring.
///
/// `control`, a communicator of the same ranks, distributes the addresses and serves barrier,
/// all_gather and broadcast. Construction is collective and throws the errors of connect_all()
/// (socket_connect.h).
class SocketCommunicator final : public Communicator {
 public:
  explicit SocketCommunicator(std::unique_ptr<Communicator> control);
  ~SocketCommunicator() override;
  SocketCommunicator(const SocketCommunicator&) = delete;
  SocketCommunicator& operator=(const SocketCommunicator&) = delete;

  void abandon() noexcept override;
  void barrier() override { control_->barrier(); }
  std::vector<std::byte> all_gather(std::span<const std::byte> mine) override {
    return control_->all_gather(mine);
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    control_->broadcast(bytes, root);
  }

 protected:
  std::string transport() const override;
  Stream& comm_stream() override { return *stream_; }
  void do_sum(const Tensor& tensor) override { ring_.run(*this, tensor); }
  void do_exchange(std::span<const Message> outgoing, std::span<const Message> incoming) override;
  void do_reporting_exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                             const OnArrival& on_arrival) override;

 private:
  std::unique_ptr<Communicator> control_;
  SocketMesh mesh_;
  RingAllReduce ring_;
  int exceptions_at_start_;
  std::unique_ptr<Stream> stream_;  // last: its thread uses the others and ends first
};

}  // namespace brigade::dist
