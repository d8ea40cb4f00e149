#pragma once

#include <atomic>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dist/comm/collectives.h"
#include "dist/sockets/socket.h"

struct pollfd;

namespace brigade::dist {

/// Messages between ranks over one TCP connection per pair. The calling thread sleeps in poll(2)
/// until data can move.
///
/// It sleeps to leave the core to the computation. Measured on two hosts with one core each and a
/// 1 Gbit/s link: a blocking MPI_Allreduce in a thread spins on the core and hides nothing of the
/// transfer; a thread that tests an MPI request every 100 µs (mpi_communicator.h) hides it and uses
/// 13 % of the core; this class uses 6 % and reaches the link's 119.5 MB/s.
class SocketMesh {
 public:
  /// `peers` as connect_all() gives them.
  SocketMesh(int rank, std::vector<Socket> peers) : rank_(rank), peers_(std::move(peers)) {}

  /// Collectives::exchange. One thread at a time; CPU tensors. Throws Error, naming the rank, when
  /// a peer is gone.
  void exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                const Collectives::OnArrival& on_arrival);

  /// Makes an exchange in progress on another thread, and all later ones, fail at once.
  void abandon() noexcept;

  /// Local addresses: "10.0.0.1", or "10.0.0.1, 127.0.0.1"; "no peers" if there are none.
  std::string addresses() const;

 private:
  struct Lane;
  static void append_lanes(bool sending, std::span<const Message> messages,
                           std::vector<Lane>& lanes);
  bool sleep_until_ready(std::span<const Lane> lanes, std::span<pollfd> entries) const;
  bool move(Lane& lane) const;
  const Socket& socket_to(int peer) const;
  [[noreturn]] void fail(int peer, int code) const;

  int rank_;
  std::vector<Socket> peers_;
  std::atomic<bool> abandoned_ = false;
};

}  // namespace brigade::dist
