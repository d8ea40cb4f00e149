#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "core/share.h"
#include "core/tensor.h"
#include "dist/algorithms/scratch.h"

namespace brigade::dist {

/// One message of an exchange. Outgoing: `tensor` is sent to rank `peer`. Incoming: `tensor` is
/// overwritten with data from `peer`.
struct Message {
  int peer = 0;
  Tensor tensor;
};

/// Collectives in the order of a communication stream. All-reduce algorithms (all_reduce.h) and
/// communication hooks (comm_hook.h) are built from them.
///
/// On the CPU they run on the thread of the communication stream and block. On a GPU they run on
/// the rank's own thread and only enqueue on the communication stream. Every rank makes the same
/// calls in the same order.
class Collectives {
 public:
  Collectives(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Collectives() = default;
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Called once per message of an exchange, with its index in `incoming`.
  using OnArrival = std::function<void(std::size_t)>;

  /// tensor := sum over ranks, in place, by the transport's own algorithm. Every rank gets the same
  /// bits. f32 or f64.
  void sum(const Tensor& tensor);

  /// The two halves of a sum. After reduce_scatter, this rank's share_of(tensor) is the sum over
  /// ranks, added in the order of the ranks (OrderedAllReduce relies on it), and the rest of
  /// `tensor` is unspecified. all_gather copies every share from its owner. f32 or f64. The
  /// defaults use exchange().
  virtual void reduce_scatter(const Tensor& tensor);
  virtual void all_gather(const Tensor& tensor);

  /// Sends all of `outgoing` and receives all of `incoming`, at the same time. What rank a sends to
  /// rank b in a call must be what b receives from a in one: as many messages, of the same lengths,
  /// in the same order. A rank with nothing to send or receive need not call. Any dtype.
  ///
  /// Calls `on_arrival(i)`, if there is one, when incoming[0 ... i] have arrived, if possible while
  /// the others are still in flight, so that they can be added meanwhile. Runs on the calling
  /// thread in the order of `incoming`, so the result does not depend on which rank was fastest.
  void exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                const OnArrival& on_arrival = nullptr);

  /// Bytes this rank has sent so far. A library's sum counts as 2 (N-1)/N of its tensor, the lower
  /// bound for N ranks (Patarasuk and Yuan, 2009, section 2). A sum made of exchanges counts the
  /// bytes of its messages.
  std::uint64_t bytes_sent() const { return bytes_sent_.load(std::memory_order_relaxed); }

 protected:
  virtual void do_sum(const Tensor& tensor) = 0;
  /// A transport that notices single arrivals calls `arrived(i)`, in the order of `incoming`.
  /// exchange() reports the others at the end: on a GPU what on_arrival enqueues follows the
  /// exchange on the stream anyway.
  virtual void do_exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                           const OnArrival& arrived) = 0;

  void count_sent(std::uint64_t bytes) { bytes_sent_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  int rank_;
  int size_;
  Scratch scratch_;
  std::atomic<std::uint64_t> bytes_sent_ = 0;  // written by the stream's thread, read by the rank's
};

}  // namespace brigade::dist
