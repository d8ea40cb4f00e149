#include "dist/watch/ledger_exchange.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "dist/comm/gather.h"
#include "dist/sockets/socket_address.h"
#include "dist/sockets/socket_connect.h"

namespace brigade::dist {
namespace {

static_assert(std::is_trivially_copyable_v<LedgerEntry>);

struct Process {
  pid_t id = 0;
  std::array<char, 128> seen_by{};  ///< equal for two ranks that see each other's processes
};

Process this_process() {
  Process process{.id = getpid()};
  namespace_identity("pid").copy(process.seen_by.data(), process.seen_by.size() - 1);
  return process;
}

bool is_terminated(const LedgerEntry::Name& name) {
  return name.back() == '\0';
}

/// Whether the rank has done something in between.
bool changed(const LedgerEntry& before, const LedgerEntry& now) {
  return before.step != now.step || before.number != now.number || before.ended != now.ended ||
         before.phase != now.phase;
}

}  // namespace

std::optional<LedgerEntry> EntryReader::parse(std::span<const std::byte> bytes) {
  LedgerEntry entry;
  if (bytes.size() != sizeof entry) {
    return std::nullopt;
  }
  std::memcpy(&entry, bytes.data(), sizeof entry);
  const bool valid = entry.kind <= LedgerEntry::Kind::leaves &&
                     entry.dtype <= static_cast<std::uint32_t>(DType::bf16) &&
                     entry.ended <= entry.number && is_terminated(entry.label) &&
                     is_terminated(entry.phase);
  return valid ? std::optional(entry) : std::nullopt;
}

LedgerExchange::LedgerExchange(Communicator& comm)
    : rank_(static_cast<std::size_t>(comm.rank())),
      peers_(static_cast<std::size_t>(comm.size())),
      connections_(peers_.size()) {
  const std::vector<Process> processes = all_gather_values(comm, this_process());
  std::vector<FileDescriptor> sockets = connect_all(comm);
  expect_prompt_readers(sockets);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    peers_[rank].view.rank = static_cast<int>(rank);
    peers_[rank].process = processes[rank].id;
    peers_[rank].sees_same_processes = processes[rank].seen_by == processes[rank_].seen_by;
    connections_[rank].socket = std::move(sockets[rank]);
  }
  wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));  // last: see the header
  BRIGADE_CHECK(wake_.valid(), "watch: cannot make an eventfd: {}", std::strerror(errno));
}

void LedgerExchange::send(std::span<const LedgerEntry> entries) {
  constexpr std::size_t kMost = 4 * Ledger::kKept * sizeof(LedgerEntry);
  const std::span<const std::byte> bytes = std::as_bytes(entries);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    Connection& connection = connections_[rank];
    if (rank == rank_) {
      std::ranges::for_each(entries, [&](const LedgerEntry& entry) { take(rank, entry); });
    } else if (connection.socket.valid() && connection.unsent.size() < kMost) {
      connection.unsent.insert(connection.unsent.end(), bytes.begin(), bytes.end());
      flush(connection);
    }
  }
}

void LedgerExchange::flush(Connection& connection) {
  std::vector<std::byte>& unsent = connection.unsent;
  const ssize_t sent =
      ::send(connection.socket.get(), unsent.data(), unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) {
    unsent.erase(unsent.begin(), unsent.begin() + sent);
  }
}

void LedgerExchange::receive(Clock::time_point deadline) {
  std::vector<pollfd> entries{{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    entries.resize(1);
    for (const Connection& connection : connections_) {
      entries.push_back({.fd = connection.socket.get(), .events = POLLIN, .revents = 0});
    }
    const int ready = poll(entries.data(), entries.size(), static_cast<int>(std::max(0L, left)));
    for (std::size_t rank = 0; ready > 0 && rank < connections_.size(); ++rank) {
      if (entries[rank + 1].revents != 0) {
        read(rank);
      }
    }
    if (left <= 0 || entries.front().revents != 0) {
      return;
    }
  }
}

void LedgerExchange::read(std::size_t rank) {
  Connection& connection = connections_[rank];
  std::array<std::byte, 16 * sizeof(LedgerEntry)> bytes;
  const ssize_t count = recv(connection.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  const std::size_t size = count > 0 ? static_cast<std::size_t>(count) : 0;
  const bool good = connection.reader.read(std::span(bytes).first(size),
                                           [&](const LedgerEntry& entry) { take(rank, entry); });
  if (size == 0 || !good) {
    peers_[rank].view.gone = !peers_[rank].view.left;
    connection.socket = FileDescriptor();
  }
}

void LedgerExchange::take(std::size_t rank, const LedgerEntry& entry) {
  Peer& peer = peers_[rank];
  Connection& connection = connections_[rank];
  connection.heard = Clock::now();
  if (changed(peer.view.last, entry)) {
    connection.changed = connection.heard;
  }
  peer.view.last = entry;
  peer.view.left |= entry.kind == LedgerEntry::Kind::leaves;
  if (entry.kind == LedgerEntry::Kind::begins || entry.kind == LedgerEntry::Kind::ends) {
    peer.entries.push_back(entry);
    if (peer.entries.size() > Ledger::kKept) {
      peer.entries.pop_front();
    }
  }
}

std::vector<RankView> LedgerExchange::views() const {
  const auto seconds_since = [now = Clock::now()](Clock::time_point time) {
    return std::chrono::duration<double>(now - time).count();
  };
  std::vector<RankView> views;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    views.push_back(peers_[rank].view);
    views.back().silent = seconds_since(connections_[rank].heard);
    views.back().unchanged = seconds_since(connections_[rank].changed);
  }
  return views;
}

void LedgerExchange::forgive() {
  for (Connection& connection : connections_) {
    connection.heard = connection.changed = Clock::now();
  }
}

void LedgerExchange::wake() const {
  eventfd_write(wake_.get(), 1);
}

}  // namespace brigade::dist
