#include "dist/sockets/handshake.h"

#include <sys/random.h>
#include <sys/socket.h>

#include <bit>
#include <cerrno>
#include <type_traits>

#include "core/error.h"

namespace brigade::dist {

static_assert(std::is_trivially_copyable_v<Hello> && sizeof(Hello) == sizeof(JobToken) + 8);

JobToken draw_job_token() {
  JobToken token;
  BRIGADE_CHECK(getrandom(token.data(), token.size(), 0) == std::ssize(token),
                "sockets: cannot draw random bytes");
  return token;
}

std::optional<int> rank_of(const Hello& hello, const Hello& mine) {
  std::byte difference{};
  for (std::size_t i = 0; i < mine.token.size(); ++i) {
    difference |= hello.token[i] ^ mine.token[i];
  }
  return difference == std::byte{} && hello.members == mine.members ? std::optional(hello.rank)
                                                                    : std::nullopt;
}

bool send_hello(const FileDescriptor& socket, const Hello& hello) {
  return send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello;
}

std::optional<Hello> Caller::read() {
  ssize_t count = 0;
  do {
    count = recv(socket_.get(), bytes_.data() + received_, bytes_.size() - received_, MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  if (count > 0) {
    received_ += static_cast<std::size_t>(count);
  } else {
    closed_ = count == 0 || errno != EAGAIN;
  }
  return received_ == bytes_.size() ? std::optional(std::bit_cast<Hello>(bytes_)) : std::nullopt;
}

}  // namespace brigade::dist
