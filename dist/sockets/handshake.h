#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/io/file_descriptor.h"

/// How two ranks of one job recognise each other on a new connection. Anybody may connect to an
/// open port.
namespace brigade::dist {

/// Random bytes that rank 0 draws and MPI carries, so only ranks of this job know them.
using JobToken = std::array<std::byte, 16>;
JobToken draw_job_token();

/// The first message on a connection, in both directions.
struct Hello {
  JobToken token{};
  std::int32_t members = 0;  ///< of the group that is being connected: ranks may have been lost
  std::int32_t rank = 0;
};

/// The rank that has sent `hello`, if it is for the group of `mine`; nothing for a stranger.
/// Compares all bytes of the token in any case: the time it takes tells a stranger nothing.
std::optional<int> rank_of(const Hello& hello, const Hello& mine);

/// False if not all of it could be sent.
bool send_hello(const FileDescriptor& socket, const Hello& hello);

/// A connection on which nobody has said hello yet. Whatever the other end does, this reads at most
/// a Hello, never waits, and is over after `patience`.
class Caller {
 public:
  explicit Caller(FileDescriptor socket, std::chrono::seconds patience = std::chrono::seconds(5))
      : socket_(std::move(socket)), until_(std::chrono::steady_clock::now() + patience) {}

  const FileDescriptor& socket() const { return socket_; }
  FileDescriptor take_socket() { return std::move(socket_); }
  /// Reads what has arrived. The Hello as soon as it is complete.
  std::optional<Hello> read();
  /// The other end has closed, or has had its time.
  bool gone() const { return closed_ || std::chrono::steady_clock::now() > until_; }

 private:
  FileDescriptor socket_;
  std::array<std::byte, sizeof(Hello)> bytes_{};
  std::size_t received_ = 0;
  bool closed_ = false;
  std::chrono::steady_clock::time_point until_;
};

}  // namespace brigade::dist
