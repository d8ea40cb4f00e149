#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "dist/comm/communicator.h"
#include "dist/shared_memory/shared_barrier.h"
#include "dist/shared_memory/shared_window.h"

namespace brigade::dist {

/// Sums over the ranks of one host. Ranks read each other's memory instead of sending messages.
///
/// Each rank owns one share of the tensor (share_of). It adds that share of all ranks, element by
/// element in the order of ranks 0 ... N-1, and writes the sum to all ranks. A barrier before waits
/// until all data is written, a barrier after until all shares are done. With S bytes and γ the
/// time to read and write one byte of memory, T = 2 barriers + S γ: each rank reads and writes S
/// bytes. A message library copies each byte at least twice more, into and out of its buffers.
///
/// This needs tensors allocated by make_buffer. Other tensors pass through a staging buffer.
///
/// sum, reduce_scatter and all_gather block. All ranks call them in the same order, each from one
/// thread at a time. f32 and f64 only.
class SharedMemory {
 public:
  /// Collective, over `ranks`' host-side calls; `ranks` must outlive this.
  SharedMemory(Communicator& ranks, WaitPolicy policy);

  /// Allocates zeroed memory that all ranks can read and write, 64-byte aligned. Its tensors own it
  /// and may outlive this object. Small buffers share a window, which is freed with the last of
  /// them. Collective; call it on the rank's own thread.
  Tensor make_buffer(const Shape& shape, DType dtype);

  /// Error on all ranks if they pass different tensors (window, offset or size).
  void sum(const Tensor& tensor);

  /// Returns false and does nothing if the tensor was not allocated by make_buffer.
  bool reduce_scatter(const Tensor& tensor);
  bool all_gather(const Tensor& tensor);

 private:
  enum class Operation : std::uint64_t { none, sum, reduce_scatter, all_gather };

  /// The arguments of a rank's collective; must be equal on all ranks.
  struct Arguments {
    Operation operation = Operation::none;
    std::uint64_t window = 0;  ///< number of the window; equal on all ranks, unlike addresses
    std::uint64_t offset = 0;  ///< of the first byte in it
    std::uint64_t bytes = 0;
    friend bool operator==(const Arguments&, const Arguments&) = default;
  };

  /// At the start of each rank's part of the staging window. All ranks use rank 0's barrier.
  struct Header {
    SharedBarrier barrier;
    Arguments arguments;
  };

  /// The position of a tensor. It keeps the window mapped.
  struct Location {
    std::shared_ptr<const SharedWindow> window;
    std::uint64_t number = 0;
    std::size_t offset = 0;
  };

  struct Entry {
    std::weak_ptr<const SharedWindow> window;
    std::uint64_t number = 0;
    std::size_t bytes = 0;
  };

  std::shared_ptr<const SharedWindow> make_window(std::size_t bytes);
  std::optional<Location> find(const Tensor& tensor);
  /// Runs compute(parts), in which parts[r] is the start of rank r's tensor. A barrier before waits
  /// until all ranks have called this with equal arguments; Error on all ranks if they differ. A
  /// barrier after waits until no rank reads or writes the memory of others any more.
  template <class Compute>
  void run_collective(Operation operation, const Location& location, std::int64_t numel,
                      DType dtype, const Compute& compute);
  void sum_at(const Location& location, std::int64_t numel, DType dtype);
  Header& header(int rank) const;

  Communicator& ranks_;
  WaitPolicy policy_;
  Location staging_;
  std::mutex mutex_;                            // the rank's thread adds, the stream's looks up
  std::map<const std::byte*, Entry> windows_;   // by the start of this rank's part
  std::uint64_t window_count_ = 0;              // windows made so far
  std::shared_ptr<const SharedWindow> common_;  // of small buffers, which never give it back
  std::size_t common_used_ = 0;
};

}  // namespace brigade::dist
