#include "dist/sockets/socket_mesh.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "core/error.h"
#include "dist/sockets/socket_address.h"

namespace brigade::dist {

/// Unfinished messages between this rank and one peer in one direction.
struct SocketMesh::Lane {
  int socket = -1;  // poll skips negative ones
  int peer = 0;
  bool sending = false;
  std::vector<const Message*> queue;  // none is empty
  std::size_t next = 0;               // position in the queue
  std::size_t moved = 0;              // bytes of the message at that position

  bool finished() const { return next == queue.size(); }
};

namespace {

/// Time that a failing rank has to print its own error (dist/launch/launch.cpp) before its peers
/// report the closed connection.
constexpr std::chrono::seconds kHeadStart{2};

/// The kernel wakes the thread when this many bytes have arrived (SO_RCVLOWAT). Without it the
/// thread wakes 380 instead of 180 times in an all-reduce of 25 MB over 1 Gbit/s, and uses 8 to 10
/// % of its core instead of 6 to 7 %.
constexpr std::size_t kWakeBytes = 128U << 10U;

/// Messages of up to this many bytes go to all peers at once, in one latency: a few packets from
/// each sender overflow no queue.
constexpr std::size_t kSmall = 16U << 10U;

}  // namespace

void SocketMesh::abandon() noexcept {
  abandoned_ = true;
  for (const FileDescriptor& socket : sockets_) {
    if (socket.valid()) {
      shutdown(socket.get(), SHUT_RDWR);  // wakes a thread that sleeps in poll
    }
  }
}

std::string SocketMesh::description() const {
  std::set<std::string> addresses;  // this rank's own
  for (const FileDescriptor& socket : sockets_) {
    sockaddr_in name{};
    socklen_t length = sizeof name;
    if (socket.valid() &&
        getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &length) == 0) {
      addresses.insert(address_text(name.sin_addr.s_addr));
    }
  }
  std::string joined;
  for (const std::string& address : addresses) {
    joined += (joined.empty() ? "" : ", ") + address;
  }
  return fmt::format("TCP sockets ({})", joined.empty() ? "no peers" : joined);
}

void SocketMesh::append(std::span<const Message> messages, bool sending,
                        std::vector<Lane>& lanes) const {
  const int size = static_cast<int>(sockets_.size());
  for (const Message& message : messages) {
    BRIGADE_CHECK(message.peer >= 0 && message.peer < size && message.peer != rank_,
                  "sockets: rank {} cannot exchange with rank {} of {}", rank_, message.peer, size);
    if (message.tensor.nbytes() > 0) {
      const int distance = sending ? message.peer - rank_ : rank_ - message.peer;
      const auto round = static_cast<std::size_t>((distance + size) % size);
      Lane& lane = lanes[2 * round + (sending ? 1 : 0)];
      lane.socket = sockets_[static_cast<std::size_t>(message.peer)].get();
      lane.peer = message.peer;
      lane.sending = sending;
      lane.queue.push_back(&message);
    }
  }
}

// Each direction to each peer is a lane with messages in order. The thread sleeps until a lane can
// move, moves at most one message per lane, reports arrivals, and sleeps again. While on_arrival
// adds received data, the kernel's socket buffers continue to send and receive.
//
// If this rank sends to and receives from all others, and not only small messages, it does so in
// rounds: in round d rank r sends to rank r + d and receives from rank r - d. At once, the senders
// would overflow the queue of a receiver's link, and TCP would send again.
void SocketMesh::exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                          const Collectives::OnArrival& on_arrival) {
  std::vector<Lane> lanes(2 * sockets_.size());  // two per round; none is used in round 0
  append(outgoing, /*sending=*/true, lanes);
  append(incoming, /*sending=*/false, lanes);
  const auto is_large = [](const Message& each) { return each.tensor.nbytes() > kSmall; };
  const bool in_rounds =
      std::ranges::count_if(lanes, &Lane::finished) == 2 && std::ranges::any_of(outgoing, is_large);
  std::vector<bool> arrived(incoming.size());
  std::size_t reported = 0;
  std::vector<pollfd> entries(lanes.size());  // in the first pass no lane can move
  do {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      Lane& lane = lanes[i];
      if (lane.sending && (entries[i].revents & POLLRDHUP) != 0) {
        fail(lane.peer, 0);  // send() might still succeed
      }
      if (entries[i].revents != 0 && move(lane)) {
        if (!lane.sending) {
          arrived[static_cast<std::size_t>(lane.queue[lane.next] - incoming.data())] = true;
        }
        lane.moved = 0;
        ++lane.next;
      }
    }
    for (; reported < arrived.size() &&
           (arrived[reported] || incoming[reported].tensor.nbytes() == 0);
         ++reported) {
      on_arrival(reported);
    }
  } while (sleep_until_ready(lanes, in_rounds, entries));
}

/// Sleeps in poll(2) until some lanes can move and marks them in their entries; with in_rounds,
/// lanes of the first round that is not finished. False at once when all lanes are finished.
bool SocketMesh::sleep_until_ready(const std::vector<Lane>& lanes, bool in_rounds,
                                   std::vector<pollfd>& entries) {
  const auto first = std::ranges::find(lanes, false, &Lane::finished);
  if (first == lanes.end()) {
    return false;
  }
  const auto round = static_cast<std::size_t>(first - lanes.begin()) / 2;
  entries.clear();
  for (const Lane& lane : lanes) {
    const bool in_turn = !in_rounds || entries.size() / 2 == round;
    // A peer that closes its connection is noticed before its turn. Else the error would name
    // another rank, which has noticed and closes its own.
    const auto events = static_cast<short>(!in_turn ? POLLRDHUP : lane.sending ? POLLOUT : POLLIN);
    const int socket = lane.finished() ? -1 : lane.socket;
    entries.push_back({.fd = socket, .events = events, .revents = 0});
    if (!lane.sending && !lane.finished()) {
      const std::size_t left = lane.queue[lane.next]->tensor.nbytes() - lane.moved;
      const int bytes = static_cast<int>(std::min(left, kWakeBytes));
      // Only a hint: if this fails, poll returns earlier.
      static_cast<void>(setsockopt(lane.socket, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes));
    }
  }
  while (poll(entries.data(), entries.size(), -1) < 0) {
    BRIGADE_CHECK(errno == EINTR, "sockets: poll: {}", std::strerror(errno));
  }
  return true;
}

/// Sends or receives the rest of the lane's next message, as far as possible without waiting. True
/// when the message is complete.
bool SocketMesh::move(Lane& lane) const {
  const Tensor& tensor = lane.queue[lane.next]->tensor;
  while (lane.moved < tensor.nbytes()) {
    std::byte* at = tensor.bytes() + lane.moved;
    const std::size_t left = tensor.nbytes() - lane.moved;
    // MSG_NOSIGNAL: otherwise SIGPIPE would end this process without a message.
    const ssize_t count = lane.sending ? send(lane.socket, at, left, MSG_NOSIGNAL | MSG_DONTWAIT)
                                       : recv(lane.socket, at, left, MSG_DONTWAIT);
    if (count > 0) {
      lane.moved += static_cast<std::size_t>(count);
    } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return false;
    } else if (count == 0 || errno != EINTR) {
      fail(lane.peer, count == 0 ? 0 : errno);
    }
  }
  return true;
}

void SocketMesh::fail(int peer, int code) const {
  const auto report_time = std::chrono::steady_clock::now() + kHeadStart;
  while (!abandoned_ && std::chrono::steady_clock::now() < report_time) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (abandoned_) {
    throw PeerLost("sockets: collective abandoned because this rank failed");
  }
  throw PeerLost(fmt::format(
      "sockets: rank {} is gone: {}; it failed, was killed, or its host cannot be reached any more",
      peer, code == 0 ? "it closed the connection" : std::strerror(code)));
}

}  // namespace brigade::dist
