#include "dist/sockets/socket_connect.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "dist/comm/fallback.h"
#include "dist/comm/gather.h"
#include "dist/sockets/handshake.h"
#include "dist/sockets/socket_address.h"
#include "dist/sockets/socket_mesh.h"

namespace brigade::dist {
namespace {

using std::chrono::seconds;

constexpr seconds kPatience{30};          // for all others to call or answer
constexpr seconds kForAddress{5};         // for one address to accept a connection
constexpr std::size_t kMostCallers = 64;  // that have not said hello; the oldest make room

constexpr const char* kAdvice =
    "; set BRIGADE_SOCKET_IFNAME to the interface that joins the hosts, or use --comm mpi";

sockaddr_in socket_address(std::uint32_t address, std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_addr.s_addr = address;
  result.sin_port = port;
  return result;
}

template <class Value>
void set_option(const FileDescriptor& socket, int level, int option, const Value& value) {
  BRIGADE_CHECK(setsockopt(socket.get(), level, option, &value, sizeof value) == 0,
                "sockets: cannot set option {}: {}", option, std::strerror(errno));
}

/// From now on calls that block longer than this fail: accept, recv; connect, send.
void set_timeouts(const FileDescriptor& socket, seconds receive, seconds send) {
  set_option(socket, SOL_SOCKET, SO_RCVTIMEO, timeval{.tv_sec = receive.count(), .tv_usec = 0});
  set_option(socket, SOL_SOCKET, SO_SNDTIMEO, timeval{.tv_sec = send.count(), .tv_usec = 0});
}

FileDescriptor new_socket(int flags = 0) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  BRIGADE_CHECK(socket.valid(), "sockets: cannot make a socket: {}", std::strerror(errno));
  return socket;
}

/// Listens at `endpoint.address` and sets the port. Strangers must not fill the queue in which the
/// ranks' calls wait, so it is as long as the system allows.
FileDescriptor listen_at(Endpoint& endpoint) {
  FileDescriptor listener = new_socket(SOCK_NONBLOCK);
  sockaddr_in name = socket_address(endpoint.address, 0);
  socklen_t length = sizeof name;
  const int fd = listener.get();
  BRIGADE_CHECK(
      bind(fd, reinterpret_cast<sockaddr*>(&name), length) == 0 && listen(fd, SOMAXCONN) == 0 &&
          getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) == 0,
      "sockets: cannot listen at {}: {}", address_text(endpoint.address), std::strerror(errno));
  endpoint.port = name.sin_port;
  return listener;
}

/// A connection to `peer` at one address. Empty, with the reason in `why`, if there is no answer or
/// another process answers.
FileDescriptor call(const Hello& mine, int peer, const sockaddr_in& where, seconds patience,
                    std::string& why) {
  FileDescriptor socket = new_socket();
  set_timeouts(socket, patience, kForAddress);  // the peer answers when it has called others
  Hello theirs;
  if (TEMP_FAILURE_RETRY(
          connect(socket.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where)) != 0) {
    why = std::strerror(errno == EINPROGRESS ? ETIMEDOUT : errno);  // EINPROGRESS: SO_SNDTIMEO
  } else if (!send_hello(socket, mine) ||
             TEMP_FAILURE_RETRY(recv(socket.get(), &theirs, sizeof theirs, MSG_WAITALL)) !=
                 sizeof theirs) {
    why = "no answer";
  } else if (rank_of(theirs, mine) != peer) {
    why = "somebody else answers";
  } else {
    return socket;
  }
  return {};
}

FileDescriptor call_at_any(const Hello& mine, int peer, const Rendezvous& rendezvous,
                           seconds patience) {
  const Endpoint& endpoint = rendezvous.endpoints[static_cast<std::size_t>(peer)];
  const Endpoint& own = rendezvous.endpoints[static_cast<std::size_t>(mine.rank)];
  std::string tried;
  for (const std::uint32_t address : candidates(own, endpoint, rendezvous.endpoints)) {
    std::string why;
    FileDescriptor socket = call(mine, peer, socket_address(address, endpoint.port), patience, why);
    if (socket.valid()) {
      return socket;
    }
    tried += fmt::format("{}{} ({})", tried.empty() ? "" : ", ", address_text(address), why);
  }
  throw PeerLost(fmt::format("sockets: rank {} cannot reach rank {} at {}{}", mine.rank, peer,
                             tried.empty() ? "any IPv4 address: it has none" : tried, kAdvice));
}

void wait_for_news(const FileDescriptor& listener, const std::deque<Caller>& callers) {
  std::vector<pollfd> entries{{.fd = listener.get(), .events = POLLIN, .revents = 0}};
  for (const Caller& caller : callers) {
    entries.push_back({.fd = caller.socket().get(), .events = POLLIN, .revents = 0});
  }
  constexpr int kMilliseconds = 100;  // callers run out of time without a word
  static_cast<void>(poll(entries.data(), entries.size(), kMilliseconds));
}

/// Whether it is known what to make of the caller: a higher member gets an answer and its place in
/// `sockets`; anybody else is hung up on.
bool decided(Caller& caller, const Hello& mine, std::span<const int> members,
             std::vector<FileDescriptor>& sockets) {
  const std::optional<Hello> hello = caller.read();
  if (!hello) {
    return caller.gone();
  }
  const int rank = rank_of(*hello, mine).value_or(-1);
  const auto found = std::ranges::find(members, rank);
  if (rank > mine.rank && found != members.end() && send_hello(caller.socket(), mine)) {
    sockets[static_cast<std::size_t>(found - members.begin())] = caller.take_socket();
  }
  return true;
}

/// Answers the calls of all higher members. Waits for all callers at once, so a stranger who says
/// nothing holds up no rank.
void answer_all(const Hello& mine, const FileDescriptor& listener, std::span<const int> members,
                seconds patience, std::vector<FileDescriptor>& sockets) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::deque<Caller> callers;
  for (;;) {
    std::size_t missing = 0;
    while (missing < members.size() &&
           (members[missing] <= mine.rank || sockets[missing].valid())) {
      ++missing;
    }
    if (missing == members.size()) {
      return;
    }
    if (std::chrono::steady_clock::now() > deadline) {
      throw PeerLost(fmt::format("sockets: rank {} has not been called by rank {} within {} s{}",
                                 mine.rank, members[missing], patience.count(), kAdvice));
    }
    wait_for_news(listener, callers);
    std::erase_if(callers, [&](Caller& caller) { return decided(caller, mine, members, sockets); });
    FileDescriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.valid()) {
      if (callers.size() == kMostCallers) {
        callers.pop_front();
      }
      callers.emplace_back(std::move(socket));
    }
  }
}

void set_options(const FileDescriptor& socket) {
  // SO_SNDBUF and SO_RCVBUF are left alone, for then the kernel lets its buffers grow with the
  // link. Measured over 1 Gbit/s with 2 ms of delay: 117 MB/s, 116 with 1 MiB each, 53 with the
  // 208 KiB that many systems allow at most; without delay all three reach the wire's speed.
  //
  // No Nagle: the end of a message must not wait for the acknowledgement of earlier data, because
  // the next step of a ring waits for it.
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  // A host that loses power closes no connection. The kernel probes after 10 s of silence and gives
  // up 20 s later.
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

}  // namespace

void expect_prompt_readers(std::span<const FileDescriptor> sockets) {
  for (const FileDescriptor& socket : sockets) {
    if (socket.valid()) {
      set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
    }
  }
}

Rendezvous open_rendezvous(Communicator& control) {
  Rendezvous rendezvous;
  rendezvous.rank = control.rank();
  Endpoint endpoint = make_endpoint();
  const std::vector<Endpoint> known = all_gather_values(control, endpoint);
  if (std::ranges::all_of(known,
                          [&](const Endpoint& e) { return e.machine == endpoint.machine; })) {
    endpoint.address = htonl(INADDR_LOOPBACK);
  }
  const std::string why =
      complaints_about(control, [&] { rendezvous.listener = listen_at(endpoint); });
  BRIGADE_CHECK(why.empty(), "{}", why);
  rendezvous.endpoints = all_gather_values(control, endpoint);
  rendezvous.token = draw_job_token();
  control.broadcast(rendezvous.token, 0);
  return rendezvous;
}

// Every rank connects to the lower ranks, lowest first, and then accepts the higher ranks. This
// cannot deadlock: rank 0 accepts at once, so rank 1 gets through and accepts, so rank 2, and so
// on. A rank listens before its port is known to others, so the kernel queues early connections.
std::vector<FileDescriptor> connect_members(const Rendezvous& rendezvous,
                                            std::span<const int> members, seconds patience) {
  const Hello mine{.token = rendezvous.token,
                   .members = static_cast<std::int32_t>(members.size()),
                   .rank = rendezvous.rank};
  std::vector<FileDescriptor> sockets(members.size());
  for (std::size_t i = 0; i < members.size() && members[i] < rendezvous.rank; ++i) {
    sockets[i] = call_at_any(mine, members[i], rendezvous, patience);
  }
  answer_all(mine, rendezvous.listener, members, patience, sockets);
  for (const FileDescriptor& socket : sockets) {
    if (socket.valid()) {
      set_options(socket);
    }
  }
  return sockets;
}

std::vector<FileDescriptor> connect_all(Communicator& control) {
  std::vector<int> members(static_cast<std::size_t>(control.size()));
  std::iota(members.begin(), members.end(), 0);
  return connect_members(open_rendezvous(control), members, kPatience);
}

}  // namespace brigade::dist
