#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dist/algorithms/ring_all_reduce.h"
#include "dist/comm/communicator.h"
#include "dist/sockets/socket_mesh.h"

namespace brigade::dist {

/// Host-side collectives over TCP alone, for ranks that cannot use MPI any more: the `control` of a
/// SocketCommunicator. A barrier of N ranks is N-1 messages of each rank, all at the same time.
///
/// Everything runs on the rank's own thread, an all_reduce as well. Errors name the peer that is
/// gone.
class SocketControl final : public Communicator {
 public:
  /// `sockets`: by rank (SocketMesh).
  SocketControl(int rank, std::vector<FileDescriptor> sockets)
      : Communicator(rank, static_cast<int>(sockets.size())), mesh_(rank, std::move(sockets)) {}

  void abandon() noexcept override { mesh_.abandon(); }
  void barrier() override;
  std::vector<std::byte> all_gather_bytes(std::span<const std::byte> mine) override;
  void broadcast(std::span<std::byte> bytes, int root) override;

 protected:
  std::string transport() const override { return mesh_.description(); }
  Stream& comm_stream() override { return stream_; }
  void do_sum(const Tensor& tensor) override { ring_.run(*this, tensor); }
  void do_exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                   const OnArrival& arrived) override {
    mesh_.exchange(outgoing, incoming, arrived);
  }

 private:
  std::vector<std::byte> gather(std::span<const std::byte> mine);

  SocketMesh mesh_;
  RingAllReduce ring_;
  InlineStream stream_;
};

}  // namespace brigade::dist
