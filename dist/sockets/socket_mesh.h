#pragma once

#include <atomic>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/io/file_descriptor.h"
#include "dist/comm/collectives.h"

struct pollfd;

namespace brigade::dist {

/// A rank is gone, or this one was told to give up waiting for it.
class PeerLost : public Error {
 public:
  using Error::Error;
};

/// One TCP connection per pair of ranks, over which one thread per rank exchanges CPU tensors.
class SocketMesh {
 public:
  /// `sockets`: by rank, as connect_all() (socket_connect.h) makes them.
  SocketMesh(int rank, std::vector<FileDescriptor> sockets)
      : rank_(rank), sockets_(std::move(sockets)) {}

  /// Collectives::exchange(), with a report of each arrival. The thread sleeps in poll(2) until
  /// data can move. PeerLost, naming the rank, if one is gone.
  void exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                const Collectives::OnArrival& on_arrival);

  /// Makes an exchange that waits, and every later one, fail. From any thread.
  void abandon() noexcept;

  /// "TCP sockets (10.0.0.1)": the addresses of this rank that are used.
  std::string description() const;

 private:
  struct Lane;
  void append(std::span<const Message> messages, bool sending, std::vector<Lane>& lanes) const;
  static bool sleep_until_ready(const std::vector<Lane>& lanes, bool in_rounds,
                                std::vector<pollfd>& entries);
  bool move(Lane& lane) const;
  [[noreturn]] void fail(int peer, int code) const;

  int rank_;
  std::vector<FileDescriptor> sockets_;
  std::atomic<bool> abandoned_ = false;
};

}  // namespace brigade::dist
