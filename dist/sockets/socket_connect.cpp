#include "dist/sockets/socket_connect.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>

#include "core/error.h"
#include "dist/sockets/socket_address.h"
#include "dist/sockets/socket_mesh.h"

namespace brigade::dist {
namespace {

using std::chrono::seconds;

constexpr seconds kPatience{30};   // for all others to call or answer
constexpr seconds kForAddress{5};  // for one address to accept a connection

constexpr const char* kAdvice =
    "; set BRIGADE_SOCKET_IFNAME to the interface that joins the hosts, or use --comm mpi";

/// The first bytes on a connection, in both directions. The random job number rejects processes of
/// other jobs that find the open port.
struct Hello {
  std::uint64_t job = 0;
  int members = 0;  // rejects a call that was made when more ranks were left
  int rank = 0;

  bool same_group(const Hello& other) const { return job == other.job && members == other.members; }
};

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
                "sockets: cannot set option ", option, ": ", std::strerror(errno));
}

/// From now on calls that block longer than this fail: accept, recv; connect, send.
void set_timeouts(const FileDescriptor& socket, seconds receive, seconds send) {
  set_option(socket, SOL_SOCKET, SO_RCVTIMEO, timeval{.tv_sec = receive.count(), .tv_usec = 0});
  set_option(socket, SOL_SOCKET, SO_SNDTIMEO, timeval{.tv_sec = send.count(), .tv_usec = 0});
}

FileDescriptor new_socket() {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  BRIGADE_CHECK(socket.valid(), "sockets: cannot make a socket: ", std::strerror(errno));
  return socket;
}

FileDescriptor listen_anywhere(int backlog, std::uint16_t& port) {
  FileDescriptor listener = new_socket();
  sockaddr_in any = socket_address(htonl(INADDR_ANY), 0);
  socklen_t length = sizeof any;
  const int fd = listener.get();
  BRIGADE_CHECK(bind(fd, reinterpret_cast<sockaddr*>(&any), length) == 0 &&
                    listen(fd, backlog) == 0 &&
                    getsockname(fd, reinterpret_cast<sockaddr*>(&any), &length) == 0,
                "sockets: cannot listen: ", std::strerror(errno));
  port = any.sin_port;
  return listener;
}

bool send_hello(const FileDescriptor& socket, const Hello& hello) {
  return send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello;
}

bool receive_hello(const FileDescriptor& socket, Hello& hello) {
  return recv(socket.get(), &hello, sizeof hello, MSG_WAITALL) == sizeof hello;
}

/// A connection to `peer` at one address. Empty, with the reason in `why`, if there is no answer or
/// another process answers.
FileDescriptor call(const Hello& mine, int peer, const sockaddr_in& where, seconds patience,
                    std::string& why) {
  FileDescriptor socket = new_socket();
  set_timeouts(socket, patience, kForAddress);  // the peer answers when it has called others
  Hello theirs;
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0) {
    why = std::strerror(errno == EINPROGRESS ? ETIMEDOUT : errno);  // EINPROGRESS: SO_SNDTIMEO
  } else if (!send_hello(socket, mine) || !receive_hello(socket, theirs)) {
    why = "no answer";
  } else if (!theirs.same_group(mine) || theirs.rank != peer) {
    why = "somebody else answers";
  } else {
    return socket;
  }
  return {};
}

FileDescriptor call_at_any(const Hello& mine, int peer, const MeetingPlace& place,
                           seconds patience) {
  const Endpoint& endpoint = place.endpoints[static_cast<std::size_t>(peer)];
  const Endpoint& own = place.endpoints[static_cast<std::size_t>(mine.rank)];
  std::string tried;
  for (const std::uint32_t address : candidates(own, endpoint, place.endpoints)) {
    std::string why;
    FileDescriptor socket = call(mine, peer, socket_address(address, endpoint.port), patience, why);
    if (socket.valid()) {
      return socket;
    }
    tried += message_of(tried.empty() ? "" : ", ", address_text(address), " (", why, ')');
  }
  throw PeerLost(message_of("sockets: rank ", mine.rank, " cannot reach rank ", peer, " at ",
                            tried.empty() ? "any IPv4 address: it has none" : tried, kAdvice));
}

/// Answers the calls of all higher members.
void answer_all(const Hello& mine, const FileDescriptor& listener, std::span<const int> members,
                seconds patience, std::vector<FileDescriptor>& sockets) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  set_timeouts(listener, seconds(1), seconds(1));
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
      throw PeerLost(message_of("sockets: rank ", mine.rank, " has not been called by rank ",
                                members[missing], " within ", patience.count(), " s", kAdvice));
    }
    FileDescriptor caller(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!caller.valid()) {
      continue;
    }
    set_timeouts(caller, kForAddress, kForAddress);
    Hello theirs;
    if (!receive_hello(caller, theirs) || !theirs.same_group(mine) || theirs.rank <= mine.rank) {
      continue;
    }
    const auto found = std::ranges::find(members, theirs.rank);
    if (found != members.end() && send_hello(caller, mine)) {
      sockets[static_cast<std::size_t>(found - members.begin())] = std::move(caller);
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
  // up 20 s later; unacknowledged data times out after 30 s.
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

}  // namespace

MeetingPlace open_meeting_place(Communicator& control) {
  MeetingPlace place;
  place.rank = control.rank();
  std::uint16_t port = 0;
  place.listener = listen_anywhere(control.size(), port);
  place.endpoints = all_gather_values(control, make_endpoint(port));
  if (control.rank() == 0) {
    place.job = std::random_device{}() * (std::uint64_t{1} << 32U) + std::random_device{}();
  }
  control.broadcast(std::as_writable_bytes(std::span(&place.job, 1)), 0);
  return place;
}

// Every rank connects to the lower ranks, lowest first, and then accepts the higher ranks. This
// cannot deadlock: rank 0 accepts at once, so rank 1 gets through and accepts, so rank 2, and so
// on. A rank listens before its port is known to others, so the kernel queues early connections.
std::vector<FileDescriptor> connect_members(const MeetingPlace& place, std::span<const int> members,
                                            seconds patience) {
  const Hello mine{
      .job = place.job, .members = static_cast<int>(members.size()), .rank = place.rank};
  std::vector<FileDescriptor> sockets(members.size());
  for (std::size_t i = 0; i < members.size() && members[i] < place.rank; ++i) {
    sockets[i] = call_at_any(mine, members[i], place, patience);
  }
  answer_all(mine, place.listener, members, patience, sockets);
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
  return connect_members(open_meeting_place(control), members, kPatience);
}

}  // namespace brigade::dist
