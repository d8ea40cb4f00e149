#pragma once

#include <bitset>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/io/file_descriptor.h"
#include "dist/comm/communicator.h"
#include "dist/sockets/socket_connect.h"

namespace brigade::dist {

/// The ranks that go on when others die: agrees on who is left, and connects those.
///
///   Survivors survivors(mpi);
///   for (;;) {
///     const auto comm = survivors.connect();
///     try { train(*comm); return; }
///     catch (const PeerLost&) { comm->abandon(); survivors.agree(); }
///   }
///
/// MPI cannot be used with the dead, so everything here is TCP. A rank is lost when the kernel has
/// closed its connection, because its process ended, or when a Watch has given it up. The
/// connections are there for this alone: nothing else is sent on them.
class Survivors {
 public:
  static constexpr std::size_t kMostRanks = 1024;

  /// Collective over `everyone`. Errors: those of connect_all(); more than kMostRanks.
  explicit Survivors(Communicator& everyone);
  /// If an exception is on its way out, tells the others that the job ends, so that they do not go
  /// on without this rank.
  ~Survivors();
  Survivors(const Survivors&) = delete;
  Survivors& operator=(const Survivors&) = delete;

  /// The ranks that are left, as numbered at first. They are numbered anew from 0, in this order.
  const std::vector<int>& members() const { return members_; }
  /// The new number of this rank.
  int rank() const;

  /// A communicator of the members for the host side (SocketControl). Collective. PeerLost where
  /// another one has died meanwhile: agree() again.
  std::unique_ptr<Communicator> connect() const;

  /// These, numbered as now, do not answer or do not go on: they count as lost. From any thread,
  /// before what this rank waits for is abandoned.
  void give_up(std::span<const int> ranks);

  /// After PeerLost: returns when all that are left agree on who that is, and have lost somebody.
  /// Every member calls it, sooner or later. Errors: no rank is lost; the others go on without this
  /// one; a rank has ended the job; those left might be a minority that the network has cut off.
  void agree();

 private:
  using Lost = std::bitset<kMostRanks>;  // by first number
  struct Peer {
    FileDescriptor socket;
    Lost announced;               // what it has announced last
    std::vector<std::byte> part;  // of an announcement that is arriving
  };

  Lost lost() const;
  bool all_announce(const Lost& lost) const;
  void announce(const Lost& lost) const;
  void receive(std::chrono::steady_clock::time_point deadline);
  void read(std::size_t rank);
  void lose(std::size_t rank, bool process_ended);
  void check_not_a_minority(const Lost& lost, const std::vector<int>& left);
  bool everyone_lost(const Lost& lost) const { return lost.count() == peers_.size(); }

  Rendezvous rendezvous_;
  std::vector<Peer> peers_;  // by first number
  std::vector<int> members_;
  FileDescriptor wake_;
  mutable std::mutex mutex_;
  Lost lost_;    // all of them, as far as this rank knows
  Lost silent_;  // whose processes may still run: the network may be at fault
  Lost agreed_;
  int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace brigade::dist
