#include "dist/comm/thread_communicator.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/runtime/trace.h"
#include "dist/comm/gather.h"

namespace brigade::dist {

void Mailbox::send(const Route& route, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  messages_[route].emplace_back(bytes.begin(), bytes.end());
  changed_.notify_all();
}

void Mailbox::receive(const Route& route, std::span<std::byte> bytes) {
  std::unique_lock lock(mutex_);
  std::deque<std::vector<std::byte>>& messages = messages_[route];
  const std::string& channel = std::get<0>(route);
  changed_.wait(lock, [&] { return !messages.empty() || channel.starts_with(broken_); });
  // What a rank has sent before it failed arrives, as it does on a network.
  BRIGADE_CHECK(!messages.empty(), "threads: another rank failed");
  BRIGADE_CHECK(messages.front().size() == bytes.size(),
                "threads: rank {} expects {} bytes from rank {}, got {}", std::get<2>(route),
                bytes.size(), std::get<1>(route), messages.front().size());
  std::ranges::copy(messages.front(), bytes.begin());
  messages.pop_front();
}

void Mailbox::break_up(const std::string& group) {
  const std::lock_guard lock(mutex_);
  broken_ = broken_ == "-" || broken_ == group ? group : "";
  changed_.notify_all();
}

ThreadCommunicator::ThreadCommunicator(std::shared_ptr<Mailbox> mailbox, int rank, int size,
                                       std::string group)
    : Communicator(rank, size),
      mailbox_(std::move(mailbox)),
      group_(std::move(group)),
      stream_(make_comm_stream(kCpu)) {}

// If an exception ends a rank, the others would wait for it for ever.
ThreadCommunicator::~ThreadCommunicator() {
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    mailbox_->break_up(group_);
  }
}

// The host's calls have a channel of their own, which no collective in flight can disturb.
std::vector<std::byte> ThreadCommunicator::all_gather_bytes(std::span<const std::byte> mine) {
  const ScopeName scope(kAllGather);
  for (int peer = 0; peer < size(); ++peer) {
    mailbox_->send({group_ + "host", rank(), peer}, mine);
  }
  std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(size()));
  for (int peer = 0; peer < size(); ++peer) {
    mailbox_->receive(
        {group_ + "host", peer, rank()},
        std::span(all).subspan(static_cast<std::size_t>(peer) * mine.size(), mine.size()));
  }
  return all;
}

void ThreadCommunicator::broadcast(std::span<std::byte> bytes, int root) {
  const ScopeName scope(kBroadcast);
  for (int peer = 0; peer < size() && rank() == root; ++peer) {
    mailbox_->send({group_ + "host", root, peer}, bytes);
  }
  mailbox_->receive({group_ + "host", root, rank()}, bytes);
}

std::unique_ptr<Communicator> ThreadCommunicator::split(int color, int key) {
  struct Member {
    int color, key, rank;
  };
  std::vector<Member> members = all_gather_values<Member>(*this, {color, key, rank()});
  std::erase_if(members, [color](const Member& member) { return member.color != color; });
  std::ranges::stable_sort(members, {}, &Member::key);
  const auto me = std::ranges::find(members, rank(), &Member::rank);
  return std::make_unique<ThreadCommunicator>(mailbox_, static_cast<int>(me - members.begin()),
                                              static_cast<int>(members.size()),
                                              fmt::format("{}{}:{}/", group_, splits_++, color));
}

void ThreadCommunicator::do_sum(const Tensor& tensor) {
  reduce_scatter(tensor);  // in rank order
  all_gather(tensor);
}

// All messages are sent first, and sending never blocks: no two ranks can wait for each other.
void ThreadCommunicator::do_exchange(std::span<const Message> outgoing,
                                     std::span<const Message> incoming,
                                     const OnArrival& /*arrived*/) {
  for (const Message& message : outgoing) {
    mailbox_->send({group_, rank(), message.peer},
                   {message.tensor.bytes(), message.tensor.nbytes()});
  }
  for (const Message& message : incoming) {
    mailbox_->receive({group_, message.peer, rank()},
                      {message.tensor.bytes(), message.tensor.nbytes()});
  }
}

}  // namespace brigade::dist
