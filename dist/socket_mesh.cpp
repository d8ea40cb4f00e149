#include "dist/socket_mesh.h"

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
#include "dist/socket_address.h"

namespace brigade::dist {
namespace {

/// A rank that fails says why within this time (dist/launch.cpp); its peers, who only see it go,
/// keep quiet so long.
constexpr std::chrono::seconds kHeadStart{2};

/// What is still to move between this rank and one peer in one direction.
struct Lane {
  bool sending = false;
  int peer = 0;
  std::vector<std::size_t> messages;  // indices into the exchange's, in order; none is empty
  std::size_t next = 0;               // place in `messages`
  std::size_t moved = 0;              // bytes of that one
};

void append_lanes(std::span<const Message> messages, bool sending, std::vector<Lane>& lanes) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].tensor.nbytes() == 0) {
      continue;
    }
    auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const Lane& one) {
      return one.sending == sending && one.peer == messages[i].peer;
    });
    if (lane == lanes.end()) {
      lane = lanes.insert(lane, {.sending = sending, .peer = messages[i].peer, .messages = {}});
    }
    lane->messages.push_back(i);
  }
}

}  // namespace

// Each direction to each peer is a lane with messages in order. The thread sleeps in poll(2) until
// the kernel has room or data for any of them, moves what there is, at most one message per lane,
// reports arrivals, and sleeps again. While on_arrival adds up what came, the kernel's own buffers
// keep moving: it sends what it has taken over from us and receives ahead of us.
void SocketMesh::exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                          const Collectives::OnArrival& on_arrival) {
  std::vector<Lane> lanes;
  append_lanes(outgoing, /*sending=*/true, lanes);
  append_lanes(incoming, /*sending=*/false, lanes);
  std::vector<pollfd> entries;
  for (const Lane& lane : lanes) {
    const auto events = static_cast<short>(lane.sending ? POLLOUT : POLLIN);
    entries.push_back({.fd = socket_to(lane.peer).descriptor(), .events = events, .revents = 0});
  }
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
  for (std::size_t pending = lanes.size(); pending > 0; report()) {
    if (poll(entries.data(), entries.size(), -1) < 0) {
      BRIGADE_CHECK(errno == EINTR, "sockets: poll: ", std::strerror(errno));
      continue;
    }
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      Lane& lane = lanes[i];
      if (entries[i].fd < 0 || entries[i].revents == 0) {
        continue;
      }
      const std::size_t index = lane.messages[lane.next];
      if (move((lane.sending ? outgoing : incoming)[index], lane.sending, lane.moved)) {
        if (!lane.sending) {
          arrived[index] = true;
        }
        lane.moved = 0;
        ++lane.next;
      }
      if (lane.next == lane.messages.size()) {
        entries[i].fd = -1;  // poll skips it
        --pending;
      }
    }
  }
}

/// Sends or receives what is left of `message` behind its first `moved` bytes, as far as the kernel
/// goes along without waiting. True when it is complete.
bool SocketMesh::move(const Message& message, bool sending, std::size_t& moved) const {
  const int fd = socket_to(message.peer).descriptor();
  const std::size_t size = message.tensor.nbytes();
  while (moved < size) {
    std::byte* at = message.tensor.bytes() + moved;
    // Without MSG_NOSIGNAL, sending to a rank that is gone would end this process without a word.
    const ssize_t count =
        sending ? send(fd, at, size - moved, MSG_NOSIGNAL) : recv(fd, at, size - moved, 0);
    if (count > 0) {
      moved += static_cast<std::size_t>(count);
    } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return false;
    } else if (count == 0 || errno != EINTR) {
      fail(message.peer, count == 0 ? 0 : errno);
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
  throw Error(concat("sockets: rank ", peer,
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
