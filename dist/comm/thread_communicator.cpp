#include "dist/comm/thread_communicator.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "core/error.h"
#include "core/ops.h"

namespace brigade::dist {

std::vector<void*> Rendezvous::arrive(int rank, void* offer) {
  return arrive(rank, offer, /*offering=*/true);
}

std::vector<void*> Rendezvous::arrive(int rank, void* offer, bool offering) {
  std::unique_lock lock(mutex_);
  if (offering) {
    offers_.at(static_cast<std::size_t>(rank)) = offer;
  }
  // Waiting for the round to change and not for a count: a fast rank may be back for the next round
  // before a slow one has woken up from this one.
  const std::size_t round = round_;
  if (++arrived_ == offers_.size()) {
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return round_ != round || broken_; });
  BRIGADE_CHECK(!broken_, "threads: another rank failed");
  return offers_;
}

void Rendezvous::break_up() {
  const std::lock_guard lock(mutex_);
  broken_ = true;
  changed_.notify_all();
}

void PostOffice::send(int from, int to, Letter letter) {
  const std::lock_guard lock(mutex_);
  boxes_[{from, to}].push_back(std::move(letter));
  changed_.notify_all();
}

PostOffice::Letter PostOffice::receive(int from, int to) {
  std::unique_lock lock(mutex_);
  std::deque<Letter>& box = boxes_[{from, to}];
  changed_.wait(lock, [&] { return !box.empty() || broken_; });
  BRIGADE_CHECK(!broken_, "threads: another rank failed");
  Letter letter = std::move(box.front());
  box.pop_front();
  return letter;
}

void PostOffice::break_up() {
  const std::lock_guard lock(mutex_);
  broken_ = true;
  changed_.notify_all();
}

void ThreadGroup::break_up() {
  data.break_up();
  control.break_up();
  letters.break_up();
}

// A rank that dies of an exception takes the others with it; they would wait for it for ever.
ThreadCommunicator::~ThreadCommunicator() {
  if (std::uncaught_exceptions() > 0) {
    group_->break_up();
  }
}

void ThreadCommunicator::barrier() {
  group_->control.arrive(rank(), nullptr);
}

std::vector<std::byte> ThreadCommunicator::all_gather(std::span<const std::byte> mine) {
  std::span<const std::byte> offer = mine;
  std::vector<std::byte> all;
  for (void* address : group_->control.arrive(rank(), &offer)) {
    const auto& part = *static_cast<std::span<const std::byte>*>(address);
    all.insert(all.end(), part.begin(), part.end());
  }
  group_->control.depart();
  return all;
}

void ThreadCommunicator::broadcast(std::span<std::byte> bytes, int root) {
  const std::vector<void*> offers = group_->control.arrive(rank(), bytes.data());
  if (rank() != root && !bytes.empty()) {
    std::memcpy(bytes.data(), offers[static_cast<std::size_t>(root)], bytes.size());
  }
  group_->control.depart();
}

std::unique_ptr<Communicator> ThreadCommunicator::split(int color, int key) {
  struct Wish {
    int color, key, rank;
  };
  std::vector<Wish> wishes = all_gather_values<Wish>(*this, {color, key, rank()});
  std::erase_if(wishes, [&](const Wish& wish) { return wish.color != color; });
  std::ranges::sort(wishes, {}, [](const Wish& wish) { return std::pair(wish.key, wish.rank); });
  std::vector<int> members;
  members.reserve(wishes.size());
  for (const Wish& wish : wishes) {
    members.push_back(wish.rank);
  }
  // The first member makes the group, the others take it from there.
  std::shared_ptr<ThreadGroup> part;
  if (members.front() == rank()) {
    part = std::make_shared<ThreadGroup>(static_cast<int>(members.size()));
  }
  const auto offers = group_->control.arrive(rank(), &part);
  const auto first = static_cast<std::size_t>(members.front());
  auto mine = *static_cast<std::shared_ptr<ThreadGroup>*>(offers[first]);
  group_->control.depart();
  const auto place = std::ranges::find(members, rank());
  return std::make_unique<ThreadCommunicator>(std::move(mine),
                                              static_cast<int>(place - members.begin()));
}

// Every rank publishes the address of its tensor, adds up all of them in rank order into a total of
// its own, and overwrites its tensor only when everyone has finished reading. The same order of
// additions on every rank gives the same bits.
void ThreadCommunicator::do_sum(const Tensor& tensor) {
  Tensor mine = tensor;
  const std::vector<void*> offers = group_->data.arrive(rank(), &mine);
  Tensor total = static_cast<Tensor*>(offers[0])->clone();
  for (std::size_t other = 1; other < offers.size(); ++other) {
    const Tensor& theirs = *static_cast<Tensor*>(offers[other]);
    BRIGADE_CHECK(theirs.shape() == tensor.shape(), "threads: rank ", rank(), " reduces ",
                  tensor.shape(), ", rank ", other, ' ', theirs.shape());
    ops::axpby(theirs, {.alpha = 1.0, .beta = 1.0}, total);
  }
  group_->data.depart();  // only when all have read may anyone overwrite its own
  tensor.copy_from(total);
}

// All letters go out first. Sending copies and never blocks: no two ranks can wait for each other.
void ThreadCommunicator::do_exchange(std::span<const Message> outgoing,
                                     std::span<const Message> incoming) {
  for (const Message& message : outgoing) {
    const std::byte* bytes = message.tensor.bytes();
    group_->letters.send(rank(), message.peer, {bytes, bytes + message.tensor.nbytes()});
  }
  for (const Message& message : incoming) {
    const PostOffice::Letter letter = group_->letters.receive(message.peer, rank());
    BRIGADE_CHECK(letter.size() == message.tensor.nbytes(), "threads: rank ", rank(), " expects ",
                  message.tensor.nbytes(), " bytes from rank ", message.peer, ", got ",
                  letter.size());
    std::copy(letter.begin(), letter.end(), message.tensor.bytes());
  }
}

}  // namespace brigade::dist
