#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "dist/comm/communicator.h"

namespace brigade::dist {

/// Exchanges one address per thread of a group: arrive() returns all addresses when all threads
/// have called it. depart() blocks until all threads have finished reading.
class Rendezvous {
 public:
  explicit Rendezvous(int size) : offers_(static_cast<std::size_t>(size)) {}

  /// Blocks. Throws Error after break_up(), so that no thread waits for a failed one.
  std::vector<void*> arrive(int rank, void* offer);
  void depart() { arrive(0, nullptr, /*offering=*/false); }
  void break_up();

 private:
  std::vector<void*> arrive(int rank, void* offer, bool offering);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<void*> offers_;
  std::size_t arrived_ = 0;
  std::size_t round_ = 0;
  bool broken_ = false;
};

/// Messages from each rank to each other rank, in order. Sending never blocks.
class PostOffice {
 public:
  using Letter = std::vector<std::byte>;

  void send(int from, int to, Letter letter);
  /// Blocks until there is a message. Throws Error after break_up().
  Letter receive(int from, int to);
  void break_up();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<Letter>> boxes_;
  bool broken_ = false;
};

/// What the ranks of one ThreadCommunicator group share.
struct ThreadGroup {
  explicit ThreadGroup(int size) : ranks(size), data(size), control(size) {}
  void break_up();

  int ranks;
  Rendezvous data;     ///< the communication threads meet here
  Rendezvous control;  ///< the ranks' own threads meet here
  PostOffice letters;  ///< between communication threads
};

/// Ranks that are threads of one process. Tests use it instead of MPI because it is fast and works
/// with sanitizers. Sums in rank order, so the bits do not depend on bucket boundaries. CPU only.
class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank)
      : Communicator(rank, group->ranks),
        group_(std::move(group)),
        stream_(make_comm_stream(kCpu)) {}
  ~ThreadCommunicator() override;

  bool sums_in_rank_order() const override { return true; }
  std::unique_ptr<Communicator> split(int color, int key) override;
  void barrier() override;
  std::vector<std::byte> all_gather(std::span<const std::byte> mine) override;
  void broadcast(std::span<std::byte> bytes, int root) override;

 protected:
  std::string transport() const override { return "threads"; }
  Stream& comm_stream() override { return *stream_; }
  void do_sum(const Tensor& tensor) override;
  void do_exchange(std::span<const Message> outgoing, std::span<const Message> incoming) override;

 private:
  std::shared_ptr<ThreadGroup> group_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace brigade::dist
