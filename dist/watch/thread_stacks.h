#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/io/file_descriptor.h"

namespace brigade::dist {

/// What each thread of another process on this host is doing. gdb looks, for half a second, or many
/// on a busy host. The process pauses for so long.
class ThreadStacks {
 public:
  /// Starts gdb.
  explicit ThreadStacks(pid_t process);
  /// Waits for its end.
  ~ThreadStacks();
  ThreadStacks(const ThreadStacks&) = delete;
  ThreadStacks& operator=(const ThreadStacks&) = delete;

  /// How long gdb has kept the process from doing anything; does not grow once gdb has ended.
  double seconds_of_pause();
  /// seconds_of_pause() has seen the end of gdb.
  bool done() const { return gdb_ == 0; }
  /// "Thread 1 ...", its frames, the next thread: what gdb has said until now. Or one line that
  /// says why there is nothing: no gdb, no permission, not done yet.
  std::vector<std::string> lines() const;

 private:
  FileDescriptor output_;  // a file in memory that gdb writes to
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double pause_ = 0.0;
  pid_t gdb_ = 0;  // 0: it has ended
};

}  // namespace brigade::dist
