#include "dist/sockets/socket_connect.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>

#include "core/error.h"
#include "dist/sockets/socket_address.h"

namespace brigade::dist {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr seconds kDeadline{30};  // for all others to call
constexpr seconds kPatience{5};   // for one address to answer

constexpr const char* kAdvice =
    "; set BRIGADE_SOCKET_IFNAME to the interface that joins the hosts, or use --comm mpi";

/// The first bytes on a connection, in both directions. The random job number rejects processes of
/// other jobs that find the open port.
struct Hello {
  std::uint64_t job = 0;
  int rank = 0;
};

std::string reason(int code) {
  return std::strerror(code);
}

sockaddr_in socket_address(std::uint32_t address, std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_addr.s_addr = address;
  result.sin_port = port;
  return result;
}

Socket new_socket() {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  BRIGADE_CHECK(socket.open(), "sockets: cannot make a socket: ", reason(errno));
  return socket;
}

Socket listen_anywhere(int backlog, std::uint16_t& port) {
  Socket listener = new_socket();
  sockaddr_in any = socket_address(htonl(INADDR_ANY), 0);
  socklen_t length = sizeof any;
  const int fd = listener.descriptor();
  BRIGADE_CHECK(bind(fd, reinterpret_cast<sockaddr*>(&any), length) == 0 &&
                    listen(fd, backlog) == 0 &&
                    getsockname(fd, reinterpret_cast<sockaddr*>(&any), &length) == 0,
                "sockets: cannot listen: ", reason(errno));
  port = any.sin_port;
  return listener;
}

/// Waits until `socket` is ready for `events`; false when the time is up.
bool ready_before(const Socket& socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd entry{.fd = socket.descriptor(), .events = events, .revents = 0};
    const int count = poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (count >= 0 || errno != EINTR) {
      return count > 0;
    }
  }
}

/// A Hello is far smaller than any socket buffer, so it is written whole or not at all.
bool send_hello(const Socket& socket, const Hello& hello) {
  return send(socket.descriptor(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello;
}

bool receive_hello(const Socket& socket, Hello& hello, Clock::time_point deadline) {
  for (std::size_t got = 0; got < sizeof hello;) {
    if (!ready_before(socket, POLLIN, deadline)) {
      return false;
    }
    const ssize_t more = recv(socket.descriptor(), reinterpret_cast<std::byte*>(&hello) + got,
                              sizeof hello - got, 0);
    if (more <= 0) {
      return false;
    }
    got += static_cast<std::size_t>(more);
  }
  return true;
}

/// A connection to `peer` at one address. Empty, with the reason in `why`, if there is no answer or
/// another process answers.
Socket call(const Hello& mine, int peer, const sockaddr_in& where, Clock::time_point deadline,
            std::string& why) {
  Socket socket = new_socket();
  const int fd = socket.descriptor();
  const auto* address = reinterpret_cast<const sockaddr*>(&where);
  int code = connect(fd, address, sizeof where) == 0 ? 0 : errno;
  if (code == EINPROGRESS) {
    socklen_t length = sizeof code;
    if (!ready_before(socket, POLLOUT, Clock::now() + kPatience)) {
      code = ETIMEDOUT;
    } else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &length) != 0) {
      code = errno;
    }
  }
  Hello theirs;
  if (code != 0) {
    why = reason(code);
  } else if (!send_hello(socket, mine) || !receive_hello(socket, theirs, deadline)) {
    why = "no answer";
  } else if (theirs.job != mine.job || theirs.rank != peer) {
    why = "somebody else answers";
  } else {
    return socket;
  }
  return {};
}

Socket call_at_any(const Hello& mine, int peer, const Endpoint& endpoint,
                   const std::vector<std::uint32_t>& addresses, Clock::time_point deadline) {
  std::string tried;
  for (const std::uint32_t address : addresses) {
    std::string why;
    Socket socket = call(mine, peer, socket_address(address, endpoint.port), deadline, why);
    if (socket.open()) {
      return socket;
    }
    tried += message_of(tried.empty() ? "" : ", ", address_text(address), " (", why, ')');
  }
  throw Error(message_of("sockets: rank ", mine.rank, " cannot reach rank ", peer, " at ",
                         tried.empty() ? "any IPv4 address: it has none" : tried, kAdvice));
}

/// Answers the calls of all higher ranks.
void answer_all(const Hello& mine, const Socket& listener, std::vector<Socket>& sockets,
                Clock::time_point deadline) {
  for (;;) {
    const auto first = sockets.begin() + mine.rank + 1;
    const auto missing =
        std::find_if(first, sockets.end(), [](const Socket& socket) { return !socket.open(); });
    if (missing == sockets.end()) {
      return;
    }
    BRIGADE_CHECK(ready_before(listener, POLLIN, deadline), "sockets: rank ", mine.rank,
                  " has not been called by rank ", missing - sockets.begin(), " within ",
                  kDeadline.count(), " s", kAdvice);
    Socket caller(accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    Hello theirs;
    if (caller.open() && receive_hello(caller, theirs, Clock::now() + kPatience) &&
        theirs.job == mine.job && theirs.rank > mine.rank &&
        theirs.rank < static_cast<int>(sockets.size()) && send_hello(caller, mine)) {
      sockets[static_cast<std::size_t>(theirs.rank)] = std::move(caller);
    }
  }
}

void set_options(const Socket& socket) {
  const auto set = [&](int level, int option, int value) {
    BRIGADE_CHECK(setsockopt(socket.descriptor(), level, option, &value, sizeof value) == 0,
                  "sockets: cannot set option ", option, ": ", reason(errno));
  };
  // SO_SNDBUF and SO_RCVBUF are left alone, for then the kernel lets its buffers grow with the
  // link. Measured over 1 Gbit/s with 2 ms of delay: 117 MB/s, 116 with 1 MiB each, 53 with the
  // 208 KiB that many systems allow at most; without delay all three reach the wire's speed.
  //
  // No Nagle: the end of a message must not wait for the acknowledgement of earlier data, because
  // the next step of a ring waits for it.
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // A host that loses power closes no connection. The kernel probes after 10 s of silence and gives
  // up 20 s later; unacknowledged data times out after 30 s.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

}  // namespace

Socket::~Socket() {
  if (open()) {
    close(descriptor_);
  }
}

// Every rank connects to the lower ranks, lowest first, and then accepts the higher ranks. This
// cannot deadlock: rank 0 accepts at once, so rank 1 gets through and accepts, so rank 2, and so
// on. A rank listens before its port is known to others, so the kernel queues early connections.
std::vector<Socket> connect_all(Communicator& control) {
  std::vector<Socket> sockets(static_cast<std::size_t>(control.size()));
  std::uint16_t port = 0;
  const Socket listener = listen_anywhere(control.size(), port);
  const Endpoint endpoint = make_endpoint(port);
  const std::vector<Endpoint> endpoints = all_gather_values(control, endpoint);
  Hello mine{.job = 0, .rank = control.rank()};
  if (control.rank() == 0) {
    mine.job = std::random_device{}() * (std::uint64_t{1} << 32U) + std::random_device{}();
  }
  control.broadcast(std::as_writable_bytes(std::span(&mine.job, 1)), 0);

  const Clock::time_point deadline = Clock::now() + kDeadline;
  for (int peer = 0; peer < control.rank(); ++peer) {
    const Endpoint& theirs = endpoints[static_cast<std::size_t>(peer)];
    sockets[static_cast<std::size_t>(peer)] =
        call_at_any(mine, peer, theirs, candidates(endpoint, theirs, endpoints), deadline);
  }
  answer_all(mine, listener, sockets, deadline);
  for (const Socket& socket : sockets) {
    if (socket.open()) {
      set_options(socket);
    }
  }
  return sockets;
}

}  // namespace brigade::dist
