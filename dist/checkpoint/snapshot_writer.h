#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/io/checkpoint_store.h"
#include "core/runtime/stream.h"

namespace brigade::dist {

/// On the host.
NamedTensors copy_of(const NamedTensors& tensors);

/// Copies a training's state and writes the copy on a thread of its own, while training goes on.
/// The thread has the lowest priority: beside a busy one it gets about 1.5 % of a core.
class SnapshotWriter {
 public:
  /// Rank 0 publishes what all ranks have written, and removes all but `keep` checkpoints.
  SnapshotWriter(CheckpointStore store, int rank, std::size_t keep);
  /// Waits for the thread; not for other ranks if an exception is on its way out.
  ~SnapshotWriter();
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  /// What is to be in this rank's `file`. After finish(), before start().
  void copy(const std::string& file, const NamedTensors& now);
  /// `files`: those of all ranks.
  void start(const CheckpointInfo& info, const std::vector<std::string>& files);
  /// Likewise, on this thread: when there is nothing left to compute.
  void write(CheckpointInfo info, const std::vector<std::string>& files);
  /// Returns when the last one is on the disk, or has failed: tells that on stderr, and false.
  bool finish();

 private:
  CheckpointStore store_;
  int rank_;
  std::size_t keep_;
  std::map<std::string, NamedTensors> copies_;  // by file; the thread's while it writes
  std::string failure_;                         // of the thread; read when it has finished
  std::atomic<bool> abandoned_ = false;
  int exceptions_at_start_ = std::uncaught_exceptions();
  std::unique_ptr<Stream> thread_;  // last: it uses the others and ends first
};

}  // namespace brigade::dist
