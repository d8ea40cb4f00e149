#pragma once

#include <cstddef>
#include <vector>

#include "dist/comm/communicator.h"

namespace brigade::dist {

/// A stretch of zeroed memory per rank, all of one length, that every rank of the host can read and
/// write. Page-aligned.
///
/// Each rank makes an anonymous file (memfd) and all map all of them; MPI only carries the names.
/// MPI_Win_allocate_shared was rejected: its memory goes back by MPI_Win_free, which all ranks must
/// call together and before MPI_Finalize, while a bucket dies when its last tensor does, be it
/// after MPI's end or on the way out of a failure; and its files lie in /dev/shm, 64 MiB in a stock
/// container. A mapping is each process's own, and the memory goes with the last one.
class SharedWindow {
 public:
  /// Collective. Error on all ranks alike, naming the first rank that cannot.
  SharedWindow(Communicator& ranks, std::size_t bytes);
  ~SharedWindow();
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;

  /// Start of a rank's stretch, in this process. Null if `bytes` is 0.
  std::byte* of(int rank) const { return parts_[static_cast<std::size_t>(rank)]; }
  std::size_t bytes() const { return bytes_; }

 private:
  void release() noexcept;

  std::size_t bytes_;
  std::vector<std::byte*> parts_;  // per rank
};

}  // namespace brigade::dist
