#pragma once

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace brigade::test {

/// The memory of this process that is in RAM.
inline std::int64_t resident_bytes() {
  std::int64_t size = 0;
  std::int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * getpagesize();
}

}  // namespace brigade::test
