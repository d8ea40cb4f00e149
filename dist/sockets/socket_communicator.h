#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dist/algorithms/ring_all_reduce.h"
#include "dist/comm/communicator.h"
#include "dist/sockets/socket_mesh.h"

namespace brigade::dist {

/// Exchanges CPU tensors over one TCP connection per pair of ranks. Sums with the ring.
///
/// The communication thread sleeps in poll(2) until data can move, which leaves the core to the
/// computation. Measured on two hosts with one core each and a 1 Gbit/s link: a blocking
/// MPI_Allreduce in a thread spins on the core and hides nothing of the transfer; a thread that
/// tests an MPI request every 100 µs (mpi_communicator.h) hides it and uses 13 % of the core; this
/// class uses 6 % and reaches the link's 119.5 MB/s.
///
/// `control`, a communicator of the same ranks, distributes the addresses and serves barrier,
/// all_gather and broadcast. Construction is collective and throws the errors of connect_all()
/// (socket_connect.h). A collective throws Error, naming the rank, if a peer is gone.
class SocketCommunicator final : public Communicator {
 public:
  explicit SocketCommunicator(std::unique_ptr<Communicator> control);
  ~SocketCommunicator() override;

  void abandon() noexcept override;
  void barrier() override { control_->barrier(); }
  std::vector<std::byte> all_gather_bytes(std::span<const std::byte> mine) override {
    return control_->all_gather_bytes(mine);
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    control_->broadcast(bytes, root);
  }

 protected:
  std::string transport() const override { return mesh_.description(); }
  Stream& comm_stream() override { return *stream_; }
  void do_sum(const Tensor& tensor) override { ring_.run(*this, tensor); }
  void do_exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                   const OnArrival& arrived) override {
    mesh_.exchange(outgoing, incoming, arrived);
  }

 private:
  std::unique_ptr<Communicator> control_;
  SocketMesh mesh_;
  RingAllReduce ring_;
  int exceptions_at_start_ = std::uncaught_exceptions();
  std::unique_ptr<Stream> stream_;  // last: its thread uses the others and ends first
};

}  // namespace brigade::dist
