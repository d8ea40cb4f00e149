// What a stranger may send to an open port. The first byte says how much of it arrives first.
#include "dist/sockets/handshake.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  constexpr dist::Hello kMine{
      .token = {std::byte{'t'}, std::byte{'o'}, std::byte{'k'}, std::byte{'e'}, std::byte{'n'}},
      .members = 3,
      .rank = 0};
  std::span<const std::uint8_t> bytes(data, std::min(size, std::size_t{4096}));
  const std::size_t first = test::take_byte(bytes) % (bytes.size() + 1);
  std::array<int, 2> ends{};
  test::require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0, "a socket");
  dist::Caller caller{FileDescriptor(ends[0])};
  const FileDescriptor stranger(ends[1]);
  std::optional<dist::Hello> hello;
  for (const auto part : {bytes.first(first), bytes.subspan(first)}) {
    if (!hello && !part.empty()) {
      test::require(send(stranger.get(), part.data(), part.size(), 0) == std::ssize(part), "sent");
      hello = caller.read();
    }
  }
  // shutdown() ends the stream at once. close() may not: while another process reads the links in
  // /proc/PID/fd, it holds the socket open.
  test::require(shutdown(stranger.get(), SHUT_WR) == 0, "an end of the stream");
  test::require(hello.has_value() == (bytes.size() >= sizeof(dist::Hello)), "a whole hello");
  if (hello) {
    const bool same = std::memcmp(bytes.data(), kMine.token.data(), kMine.token.size()) == 0;
    test::require(dist::rank_of(*hello, kMine).has_value() == (same && hello->members == 3),
                  "the token and the members decide");
  } else {
    caller.read();
    test::require(caller.gone(), "a caller whose stream has ended is gone");
  }
  return 0;
}
