#pragma once

#include <sys/types.h>

#include <chrono>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/io/file_descriptor.h"
#include "dist/comm/communicator.h"
#include "dist/watch/diagnosis.h"
#include "dist/watch/ledger.h"

namespace brigade::dist {

/// Takes ledger entries out of a stream of bytes from another process, which may be anything.
class EntryReader {
 public:
  /// Calls `take` for each entry completed by `bytes`. False, and nothing more is read, if one is
  /// not an entry.
  template <class Take>
  bool read(std::span<const std::byte> bytes, const Take& take) {
    for (const std::byte byte : bytes) {
      pending_.push_back(byte);
      if (pending_.size() == sizeof(LedgerEntry)) {
        const std::optional<LedgerEntry> entry = parse(pending_);
        pending_.clear();
        if (!entry) {
          return false;
        }
        take(*entry);
      }
    }
    return true;
  }

  /// Nothing for bytes that no Ledger has written.
  static std::optional<LedgerEntry> parse(std::span<const std::byte> bytes);

 private:
  std::vector<std::byte> pending_;
};

/// The connections on which ranks send each other their ledgers. One thread uses it.
class LedgerExchange {
 public:
  struct Peer {
    pid_t process = 0;
    bool sees_same_processes = false;  ///< `process` means the same here
    std::deque<LedgerEntry> entries;   ///< the last Ledger::kKept
    RankView view;
  };

  /// Collective over `comm`. Errors of connect_all() (sockets/socket_connect.h), after which all
  /// ranks are at the same place.
  explicit LedgerExchange(Communicator& comm);
  LedgerExchange(const LedgerExchange&) = delete;
  LedgerExchange& operator=(const LedgerExchange&) = delete;

  /// To all ranks, this one included. Never waits: what a rank does not take is dropped.
  void send(std::span<const LedgerEntry> entries);
  /// Reads what has arrived until `deadline`, or until wake().
  void receive(std::chrono::steady_clock::time_point deadline);
  /// All ranks count as heard and changed now.
  void forgive();
  /// From any thread.
  void wake() const;

  /// All ranks as they are known now.
  std::vector<RankView> views() const;
  const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    FileDescriptor socket;
    std::vector<std::byte> unsent;
    EntryReader reader;
    Clock::time_point heard = Clock::now();
    Clock::time_point changed = heard;
  };
  void take(std::size_t rank, const LedgerEntry& entry);
  void read(std::size_t rank);
  static void flush(Connection& connection);

  std::size_t rank_;
  std::vector<Peer> peers_;  // by rank
  std::vector<Connection> connections_;
  FileDescriptor wake_;
};

}  // namespace brigade::dist
