#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/io/file_descriptor.h"

namespace brigade::dist {

/// What each thread of a process on this host is doing: gdb looks at it, which takes about a
/// second, while this process goes on.
class ThreadStacks {
 public:
  /// Starts gdb.
  explicit ThreadStacks(pid_t process);
  /// Ends it, if it is still there.
  ~ThreadStacks();
  ThreadStacks(const ThreadStacks&) = delete;
  ThreadStacks& operator=(const ThreadStacks&) = delete;

  /// "Thread 1 ...", its frames, the next thread: what gdb has said until now. Or one line that
  /// says why there is nothing: no gdb, no permission, not done yet.
  std::vector<std::string> lines() const;

 private:
  FileDescriptor output_;  // a file in memory that gdb writes to
  pid_t gdb_ = 0;
};

}  // namespace brigade::dist
