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

/// Sums over the ranks of one host, who read each other's memory instead of sending it.
///
/// Every rank is in charge of one share of the tensor (share_of). It adds up that share of all
/// ranks, element by element in the order 0 ... N-1, and writes the sum to all of them; a barrier
/// before (all data is there) and one after (all shares are done) is all the coordination. With S
/// bytes and γ the time to read and write a byte of memory, T = 2 barriers + S γ: each rank reads
/// S and writes S bytes, N of S/N each. Through a message library each byte crosses memory at least
/// twice more, in and out of its buffers.
///
/// That works on tensors in memory of make_buffer. Any other one passes in pieces through a buffer
/// of this class.
///
/// sum, reduce_scatter and all_gather (collectives.h) come from one thread at a time, in one order
/// on all ranks, and block. f32 and f64 only.
class SharedMemory {
 public:
  /// Collective, over `ranks`' host-side calls; `ranks` must outlive this.
  SharedMemory(Communicator& ranks, Patience patience);

  /// Zeroed memory that all ranks can reach, at a multiple of 64 bytes. It lives for as long as its
  /// tensors, even longer than this object; small ones share windows, which go with the last of
  /// them, the newest not before this. Collective, on the rank's own thread.
  Tensor make_buffer(const Shape& shape, DType dtype);

  /// Error, on all ranks, when they do not all bring the same stretch of memory.
  void sum(const Tensor& tensor);

  /// False, with nothing done, when the tensor does not lie in memory of make_buffer.
  bool reduce_scatter(const Tensor& tensor);
  bool all_gather(const Tensor& tensor);

 private:
  enum class Operation : std::uint64_t { none, sum, reduce_scatter, all_gather };

  /// What a rank brings to a collective; equal on all ranks.
  struct Ticket {
    Operation operation = Operation::none;
    std::uint64_t window = 0;  ///< number of the window; equal on all ranks, unlike addresses
    std::uint64_t offset = 0;  ///< of the first byte in it
    std::uint64_t bytes = 0;
    friend bool operator==(const Ticket&, const Ticket&) = default;
  };

  /// First thing in each rank's part of the staging window. All use rank 0's barrier.
  struct Header {
    SharedBarrier barrier;
    Ticket ticket;
  };

  /// Where a tensor lies. Holding it keeps the window mapped.
  struct Place {
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
  std::optional<Place> find(const Tensor& tensor);
  void sum_in(const Place& place, std::int64_t numel, DType dtype);
  void meet(Operation operation, const Place& place, std::size_t bytes);
  void part();
  Header& header(int rank) const;

  Communicator& ranks_;
  Patience patience_;
  Place staging_;
  std::mutex mutex_;                            // the rank's thread adds, the stream's looks up
  std::map<const std::byte*, Entry> windows_;   // by the start of this rank's part
  std::uint64_t made_ = 0;                      // windows so far
  std::shared_ptr<const SharedWindow> common_;  // of small buffers, which never give it back
  std::size_t common_used_ = 0;
};

}  // namespace brigade::dist
