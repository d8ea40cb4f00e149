#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "dist/comm/communicator.h"

namespace brigade::dist {

/// One part of zeroed memory per rank, all of equal size, which every rank of the host can read and
/// write. Page-aligned.
///
/// Each rank creates an anonymous file (memfd), and every rank maps all files. MPI only exchanges
/// their names. The kernel frees a file with its last mapping.
///
/// MPI_Win_allocate_shared was rejected for two reasons. MPI_Win_free is collective and must come
/// before MPI_Finalize, but a bucket is freed with its last tensor, which may be later or during an
/// exception. Its files are in /dev/shm, which has only 64 MiB in a default container.
class SharedWindow {
 public:
  struct Unmap {
    std::size_t bytes = 0;
    void operator()(std::byte* start) const;
  };
  using Mapping = std::unique_ptr<std::byte, Unmap>;

  /// Collective. Throws the same Error on all ranks, with the first rank that failed.
  SharedWindow(Communicator& ranks, std::size_t bytes);

  /// Address of a rank's part in this process. Null if `bytes` is 0.
  std::byte* of(int rank) const { return parts_[static_cast<std::size_t>(rank)].get(); }

 private:
  std::vector<Mapping> parts_;  // by rank
};

}  // namespace brigade::dist
