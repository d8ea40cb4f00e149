#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "dist/comm/communicator.h"

namespace brigade::dist {

/// Messages between the threads of one process. Sending copies and never blocks. Messages of one
/// channel from one rank to another arrive in the order in which they were sent.
class Mailbox {
 public:
  using Route = std::tuple<std::string, int, int>;  ///< channel, from, to

  void send(const Route& route, std::span<const std::byte> bytes);
  /// Blocks until there is a message. Error if it has another length than `bytes`, or after
  /// break_up(), so that no thread waits for a failed one.
  void receive(const Route& route, std::span<std::byte> bytes);
  /// Ends the channels whose names begin with `group`: a group's, and those of its sub-groups.
  void break_up(const std::string& group = "");

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Route, std::deque<std::vector<std::byte>>> messages_;
  std::string broken_ = "-";  // the group that has ended; "": all; "-": none
};

/// Ranks that are threads of one process. Tests use it instead of MPI because it is fast and works
/// with sanitizers. Sums in rank order, so the bits do not depend on bucket boundaries. An
/// exception that ends one rank ends all; abandon() does nothing. CPU only.
class ThreadCommunicator final : public Communicator {
 public:
  /// All ranks of a group share `mailbox`; `group` names the group in it.
  ThreadCommunicator(std::shared_ptr<Mailbox> mailbox, int rank, int size,
                     std::string group = "all/");
  ~ThreadCommunicator() override;

  bool sums_in_rank_order() const override { return true; }
  std::unique_ptr<Communicator> split(int color, int key) override;
  void barrier() override { all_gather_bytes({}); }
  std::vector<std::byte> all_gather_bytes(std::span<const std::byte> mine) override;
  void broadcast(std::span<std::byte> bytes, int root) override;

 protected:
  std::string transport() const override { return "threads"; }
  Stream& comm_stream() override { return *stream_; }
  void do_sum(const Tensor& tensor) override;
  void do_exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                   const OnArrival& arrived) override;

 private:
  std::shared_ptr<Mailbox> mailbox_;
  std::string group_;
  int splits_ = 0;
  int exceptions_at_start_ = std::uncaught_exceptions();
  std::unique_ptr<Stream> stream_;  // last: its thread ends first
};

}  // namespace brigade::dist
