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
namespace {

/// Time that a failing rank has to print its own error (dist/launch/launch.cpp) before its peers
/// report the closed connection.
constexpr std::chrono::seconds kHeadStart{2};

/// The kernel wakes the thread when this many bytes have arrived (SO_RCVLOWAT). Without it the
/// thread wakes 380 instead of 180 times in an all-reduce of 25 MB over 1 Gbit/s, and uses 8 to 10
/// % of its core instead of 6 to 7 %.
constexpr std::size_t kWorthwhileBytes = 128U << 10U;

}  // namespace

/// Unfinished messages between this rank and one peer in one direction.
struct SocketMesh::Lane {
  bool sending = false;
  int peer = 0;
  std::span<const Message> messages;  // all of the exchange in this direction
  std::vector<std::size_t> queue;     // indices of this peer's messages; none is empty
  std::size_t next = 0;               // position in the queue
  std::size_t moved = 0;              // bytes of the message at that position

  bool finished() const { return next == queue.size(); }
  std::size_t index() const { return queue[next]; }
  const Message& message() const { return messages[index()]; }
};

void SocketMesh::append_lanes(bool sending, std::span<const Message> messages,
                              std::vector<Lane>& lanes) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].tensor.nbytes() == 0) {
      continue;
    }
    auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const Lane& one) {
      return one.sending == sending && one.peer == messages[i].peer;
    });
    if (lane == lanes.end()) {
      lane = lanes.insert(
          lane, {.sending = sending, .peer = messages[i].peer, .messages = messages, .queue = {}});
    }
    lane->queue.push_back(i);
  }
}

// Each direction to each peer is a lane with messages in order. The thread sleeps until a lane can
// move, moves at most one message per lane, reports arrivals, and sleeps again. While on_arrival
// adds received data, the kernel's socket buffers continue to send and receive.
void SocketMesh::exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                          const Collectives::OnArrival& on_arrival) {
  std::vector<Lane> lanes;
  append_lanes(/*sending=*/true, outgoing, lanes);
  append_lanes(/*sending=*/false, incoming, lanes);
  std::vector<bool> arrived(incoming.size());
  for (std::size_t i = 0; i < incoming.size(); ++i) {
    arrived[i] = incoming[i].tensor.nbytes() == 0;
  }
  std::size_t reported = 0;
  const auto report = [&] {
    for (; reported < arrived.size() && arrived[reported]; ++reported) {
      on_arrival(reported);
    }
  };

  report();
  std::vector<pollfd> entries(lanes.size());
  while (sleep_until_ready(lanes, entries)) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      Lane& lane = lanes[i];
      if (entries[i].revents != 0 && move(lane)) {
        if (!lane.sending) {
          arrived[lane.index()] = true;
        }
        lane.moved = 0;
        ++lane.next;
      }
    }
    report();
  }
}

/// Sleeps in poll(2) until some lanes can move and marks them in their entries. False at once when
/// all lanes are finished.
bool SocketMesh::sleep_until_ready(std::span<const Lane> lanes, std::span<pollfd> entries) const {
  bool unfinished = false;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const Lane& lane = lanes[i];
    const auto events = static_cast<short>(lane.sending ? POLLOUT : POLLIN);
    const int fd = lane.finished() ? -1 : socket_to(lane.peer).descriptor();  // -1: poll skips it
    entries[i] = {.fd = fd, .events = events, .revents = 0};
    unfinished = unfinished || !lane.finished();
    if (!lane.sending && !lane.finished()) {
      const std::size_t left = lane.message().tensor.nbytes() - lane.moved;
      const int worthwhile = static_cast<int>(std::min(left, kWorthwhileBytes));
      // Only a hint: if this fails, poll returns earlier.
      static_cast<void>(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &worthwhile, sizeof worthwhile));
    }
  }
  while (unfinished && poll(entries.data(), entries.size(), -1) < 0) {
    BRIGADE_CHECK(errno == EINTR, "sockets: poll: ", std::strerror(errno));
  }
  return unfinished;
}

/// Sends or receives the rest of the lane's next message, as far as possible without waiting. True
/// when the message is complete.
bool SocketMesh::move(Lane& lane) const {
  const int fd = socket_to(lane.peer).descriptor();
  const Tensor& tensor = lane.message().tensor;
  while (lane.moved < tensor.nbytes()) {
    std::byte* at = tensor.bytes() + lane.moved;
    const std::size_t left = tensor.nbytes() - lane.moved;
    // MSG_NOSIGNAL: otherwise SIGPIPE would end this process without a message.
    const ssize_t count = lane.sending ? send(fd, at, left, MSG_NOSIGNAL) : recv(fd, at, left, 0);
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

const Socket& SocketMesh::socket_to(int peer) const {
  const auto index = static_cast<std::size_t>(peer);
  BRIGADE_CHECK(peer >= 0 && index < peers_.size() && peer != rank_, "sockets: rank ", rank_,
                " cannot exchange with rank ", peer, " of ", peers_.size());
  return peers_[index];
}

void SocketMesh::fail(int peer, int code) const {
  const auto report_time = std::chrono::steady_clock::now() + kHeadStart;
  while (!abandoned_ && std::chrono::steady_clock::now() < report_time) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  BRIGADE_CHECK(!abandoned_, "sockets: collective abandoned because this rank failed");
  throw Error(message_of("sockets: rank ", peer,
                         " is gone: ", code == 0 ? "it closed the connection" : std::strerror(code),
                         "; it failed, was killed, or its host cannot be reached any more"));
}

void SocketMesh::abandon() noexcept {
  abandoned_ = true;
  for (const Socket& socket : peers_) {
    if (socket.open()) {
      shutdown(socket.descriptor(), SHUT_RDWR);  // wakes a thread that sleeps in poll
    }
  }
}

std::string SocketMesh::addresses() const {
  std::set<std::string> texts;
  for (const Socket& socket : peers_) {
    sockaddr_in name{};
    socklen_t length = sizeof name;
    if (socket.open() &&
        getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&name), &length) == 0) {
      texts.insert(address_text(name.sin_addr.s_addr));
    }
  }
  std::string joined;
  for (const std::string& text : texts) {
    joined += (joined.empty() ? "" : ", ") + text;
  }
  return joined.empty() ? "no peers" : joined;
}

}  // namespace brigade::dist
