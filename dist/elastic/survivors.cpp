#include "dist/elastic/survivors.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include "core/error.h"
#include "dist/sockets/socket_control.h"

namespace brigade::dist {
namespace {

using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr seconds kToConnect{10};
/// Without a lost rank after this time the failure has another cause.
constexpr seconds kToNotice{5};
/// For a member that has not noticed yet, because it computes. A Watch loses patience earlier.
constexpr seconds kToAgree{600};
/// For a rank that fails to print its own line.
constexpr seconds kHeadStart{2};
/// For the kernel to close the connection of a process that was killed a moment ago.
constexpr seconds kToDie{2};

}  // namespace

Survivors::Survivors(Communicator& everyone)
    : rendezvous_(open_rendezvous(everyone)),
      peers_(static_cast<std::size_t>(everyone.size())),
      members_(peers_.size()),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  BRIGADE_CHECK(peers_.size() <= kMostRanks, "survivors: expected at most {} ranks, got {}",
                kMostRanks, peers_.size());
  BRIGADE_CHECK(wake_.valid(), "survivors: cannot make an eventfd");
  std::vector<FileDescriptor> sockets = connect_all(everyone);
  expect_prompt_readers(sockets);
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    peers_[rank].socket = std::move(sockets[rank]);
  }
  std::iota(members_.begin(), members_.end(), 0);
}

Survivors::~Survivors() {
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    Lost everyone;
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
      everyone.set(rank);
    }
    announce(everyone);
  }
}

int Survivors::rank() const {
  return static_cast<int>(std::ranges::find(members_, rendezvous_.rank) - members_.begin());
}

std::unique_ptr<Communicator> Survivors::connect() const {
  return std::make_unique<SocketControl>(rank(),
                                         connect_members(rendezvous_, members_, kToConnect));
}

void Survivors::give_up(std::span<const int> ranks) {
  {
    const std::lock_guard lock(mutex_);
    for (const int rank : ranks) {
      const auto number = static_cast<std::size_t>(members_.at(static_cast<std::size_t>(rank)));
      silent_[number] = silent_[number] || !lost_[number];
      lost_.set(number);
    }
  }
  eventfd_write(wake_.get(), 1);
}

Survivors::Lost Survivors::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

// What ranks know of the lost only grows, and each announces what it knows whenever that has grown.
// Where all that are left have announced the same, they agree. If one dies just then, some may
// return while others have noticed and announce more. The former find out when they connect, and
// agree again.
void Survivors::agree() {
  Lost announced = agreed_;
  auto deadline = Clock::now() + kToNotice;
  for (;;) {
    const Lost now = lost();
    if (now != announced) {
      deadline = Clock::now() + kToAgree;
      announce(now);
      announced = now;
    }
    if (now != agreed_ && all_announce(now)) {
      break;
    }
    BRIGADE_CHECK(Clock::now() < deadline, "survivors: {}",
                  now == agreed_ ? "a connection failed, but all ranks are there"
                                 : "the others do not agree with this rank on who is left");
    receive(deadline);
  }
  std::vector<int> left;
  std::ranges::copy_if(members_, std::back_inserter(left),
                       [&](int rank) { return !announced[static_cast<std::size_t>(rank)]; });
  check_not_a_minority(announced, left);
  members_ = left;
  agreed_ = announced;
}

/// Ranks that only do not answer may say the same of this one, and go on as well: two halves that
/// write to one directory. Only a majority can know that it is alone.
void Survivors::check_not_a_minority(const Lost& lost, const std::vector<int>& left) {
  const std::size_t twice = 2 * left.size();
  if (twice > members_.size() || (twice == members_.size() && left.front() == members_.front())) {
    return;
  }
  const auto may_run = [&] {
    const std::lock_guard lock(mutex_);
    return (lost & silent_ & ~agreed_).any();
  };
  for (const auto deadline = Clock::now() + kToDie; may_run() && Clock::now() < deadline;) {
    receive(deadline);
  }
  BRIGADE_CHECK(!may_run(),
                "survivors: {} of {} ranks are left, and the network may have cut them off from "
                "others that go on; start the job again",
                left.size(), members_.size());
}

bool Survivors::all_announce(const Lost& lost) const {
  return std::ranges::all_of(members_, [&](int member) {
    const auto rank = static_cast<std::size_t>(member);
    return member == rendezvous_.rank || lost[rank] || peers_[rank].announced == lost;
  });
}

void Survivors::announce(const Lost& lost) const {
  for (const Peer& peer : peers_) {
    if (peer.socket.valid()) {  // small, and never many: the kernel takes it at once
      static_cast<void>(send(peer.socket.get(), &lost, sizeof lost, MSG_NOSIGNAL | MSG_DONTWAIT));
    }
  }
}

/// Waits until something has arrived, or for give_up().
void Survivors::receive(Clock::time_point deadline) {
  std::vector<pollfd> entries{{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  for (const Peer& peer : peers_) {
    entries.push_back({.fd = peer.socket.get(), .events = POLLIN, .revents = 0});
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  const int ready = poll(entries.data(), entries.size(), static_cast<int>(std::max<long>(0, left)));
  for (std::size_t rank = 0; ready > 0 && rank < peers_.size(); ++rank) {
    if (entries[rank + 1].revents != 0) {
      read(rank);
    }
  }
  eventfd_t count = 0;
  eventfd_read(wake_.get(), &count);
}

void Survivors::read(std::size_t rank) {
  Peer& peer = peers_[rank];
  Lost theirs;
  std::vector<std::byte> bytes(sizeof theirs - peer.part.size());
  const ssize_t count = recv(peer.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (count <= 0) {
    lose(rank, count == 0 || errno == ECONNRESET || errno == EPIPE);
    return;
  }
  peer.part.insert(peer.part.end(), bytes.begin(), bytes.begin() + count);
  if (peer.part.size() < sizeof theirs) {
    return;
  }
  std::memcpy(&theirs, peer.part.data(), sizeof theirs);
  peer.part.clear();
  if (everyone_lost(theirs)) {
    std::this_thread::sleep_for(kHeadStart);
    throw Error(fmt::format("survivors: rank {} has ended the job", rank));
  }
  BRIGADE_CHECK(!theirs[static_cast<std::size_t>(rendezvous_.rank)],
                "survivors: the other ranks go on without this one, which did not answer");
  peer.announced = theirs;
  const std::lock_guard lock(mutex_);
  lost_ |= theirs;
}

void Survivors::lose(std::size_t rank, bool process_ended) {
  peers_[rank].socket = FileDescriptor();
  const std::lock_guard lock(mutex_);
  lost_.set(rank);
  silent_[rank] = !process_ended;
}

}  // namespace brigade::dist
