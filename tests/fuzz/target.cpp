#include "tests/fuzz/target.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "core/io/file_descriptor.h"

namespace brigade::test {

void require(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "not as promised: %s\n", what);
    std::abort();
  }
}

std::string file_of(std::span<const std::uint8_t> bytes) {
  static const FileDescriptor file(memfd_create("fuzz", MFD_CLOEXEC));
  require(ftruncate(file.get(), 0) == 0 &&
              pwrite(file.get(), bytes.data(), bytes.size(), 0) == std::ssize(bytes),
          "a file in memory");
  return "/proc/self/fd/" + std::to_string(file.get());
}

std::uint8_t take_byte(std::span<const std::uint8_t>& bytes) {
  const std::uint8_t first = bytes.empty() ? std::uint8_t{0} : bytes.front();
  bytes = bytes.subspan(bytes.empty() ? 0 : 1);
  return first;
}

}  // namespace brigade::test
