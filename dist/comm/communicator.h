#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/stream.h"
#include "core/tensor.h"
#include "dist/algorithms/all_reduce.h"
#include "dist/comm/collectives.h"
#include "dist/comm/records.h"

namespace brigade::dist {

/// An asynchronous collective in flight. A cheap handle. The event knows its time (elapsed_ms).
class Work {
 public:
  Work() = default;
  /// `device`: the device of the payload.
  Work(Event done, Device device) : done_(std::move(done)), device_(device) {}
  const Event& done_event() const { return done_; }
  Device device() const { return device_; }

 private:
  Event done_;
  Device device_ = kCpu;
};

/// A group of ranks that execute the same collectives in the same order.
///
/// all_reduce is asynchronous: it runs on the communicator's own stream, ordered behind the compute
/// stream by an event. One thread per rank issues collectives; ranks match them by call order
/// alone. The small host-side calls (barrier, all_gather_bytes, broadcast) block and use a channel
/// of their own, so they never meet an all-reduce in flight.
class Communicator : protected Collectives {
 public:
  using Collective = std::function<void(Collectives&)>;
  /// Puts something around a collective: returns what is to be executed in its place.
  using Wrap = std::function<Collective(const Tensor& payload, std::string_view label, Collective)>;

  using Collectives::rank;
  using Collectives::size;

  /// What carries the data, for people: "MPI (Open MPI 4.1.4)", "NCCL 2.28.9".
  std::string description() const;

  /// From now on all_reduce uses this algorithm instead of the library's sum; part of
  /// description(). Every rank gets the same one, before the first all_reduce.
  void use(std::unique_ptr<AllReduce> algorithm) { algorithm_ = std::move(algorithm); }

  /// Whether the library's sum adds every element in the order of the ranks, as OrderedAllReduce
  /// does, and so needs no replacement where bits must not depend on buckets.
  virtual bool sums_in_rank_order() const { return size() == 1; }

  /// Starts `tensor` := sum over ranks, in place, once everything enqueued so far on this thread's
  /// compute stream is done. Returns at once; the caller must not touch `tensor` before wait(work).
  /// Every rank ends with the same bits. `label` says in a time line what it was.
  Work all_reduce(const Tensor& tensor, std::string_view label = {});

  /// Starts any other work on the communication stream, once everything enqueued so far on this
  /// thread's compute stream is done; all_reduce is the special case of one sum. `collective` gets
  /// what collectives.h offers, must be the same on all ranks, and keeps alive what it uses.
  /// `payload` is the data in full: its bytes are counted and shown in a time line.
  Work enqueue(const Tensor& payload, std::string_view label, Collective collective);

  /// Makes this thread's compute stream wait for `work`. On a GPU the host does not wait. Rethrows
  /// what a CPU collective threw.
  void wait(const Work& work);

  /// all_reduce and wait in one: from here to the end of the collective the compute stream has
  /// nothing to do, and the time in between counts as waiting.
  void blocking_all_reduce(const Tensor& tensor, std::string_view label = {});

  /// Host side, blocking.
  virtual void barrier() = 0;
  /// Concatenation over ranks of equally long byte strings, in rank order.
  virtual std::vector<std::byte> all_gather_bytes(std::span<const std::byte> mine) = 0;
  /// Host bytes of rank `root` to everyone.
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;

  /// Runs collectives on the calling thread, for a communicator that is built on this one and keeps
  /// their order by other means. Not together with all_reduce.
  Collectives& host_collectives() { return *this; }

  /// Makes what is in flight fail soon instead of waiting for its peers for ever, because this rank
  /// is failing. From any thread; nothing else may be asked of the communicator afterwards.
  virtual void abandon() noexcept;

  /// Memory for a bucket, in which this communicator's sum needs no copy of its own. What is in it
  /// is unspecified. Freed like any other. Collective.
  Tensor make_buffer(const Shape& shape, DType dtype, Device device) {
    return algorithm_ ? algorithm_->make_buffer(shape, dtype, device)
                      : do_make_buffer(shape, dtype, device);
  }

  /// A new communicator of the ranks that give the same `color` (from 0 up), ordered by `key`, ties
  /// by their rank here (MPI_Comm_split). Collective. Error where there are no sub-groups.
  virtual std::unique_ptr<Communicator> split(int color, int key);

  /// Bytes this rank has sent so far (Collectives), its all-reduce algorithm's own groups included.
  std::uint64_t bytes_sent() const {
    return Collectives::bytes_sent() + (algorithm_ ? algorithm_->bytes_sent() : 0);
  }

  /// Number of collectives started so far.
  std::uint64_t collectives() const { return collectives_; }
  Traffic traffic() const { return {collectives_, bytes_reduced_, bytes_sent()}; }

  /// From now on every collective is wrapped in this, too, around the wraps of before: a record of
  /// it (dist/watch), a check of its result. remove_wrap() takes away the one added last, so those
  /// that add wraps must remove them in the opposite order.
  void add_wrap(Wrap wrap) { wraps_.push_back(std::move(wrap)); }
  void remove_wrap() { wraps_.pop_back(); }

  /// When collectives and waits happened; kept while times().on, until somebody takes them.
  CommTimes& times() { return times_; }

 protected:
  using Collectives::Collectives;

  virtual std::string transport() const = 0;

  virtual Tensor do_make_buffer(const Shape& shape, DType dtype, Device device) {
    return Tensor::empty(shape, dtype, device);
  }

  /// Where collectives run; made by the subclass, whose destructor must finish or abandon what is
  /// in flight.
  virtual Stream& comm_stream() = 0;

 private:
  friend class EmulatedLinkCommunicator;  // uses the comm_stream() of what it wraps

  std::unique_ptr<AllReduce> algorithm_;  // null: sum()
  std::uint64_t collectives_ = 0;
  std::uint64_t bytes_reduced_ = 0;
  std::vector<Wrap> wraps_;  // the innermost first
  CommTimes times_;
};

}  // namespace brigade::dist
