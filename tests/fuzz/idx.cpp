// Images and labels: the first byte says how many extents are expected.
#include "core/error.h"
#include "nn/data/fashion_mnist.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  std::span<const std::uint8_t> bytes(data, size);
  const std::size_t dimensions = test::take_byte(bytes) % 4 + 1;
  try {
    const data::IdxFile file = data::read_idx(test::file_of(bytes), dimensions);
    std::int64_t total = 1;
    for (const std::int64_t extent : file.extents) {
      total *= extent;
    }
    test::require(file.extents.size() == dimensions && total == std::ssize(file.bytes),
                  "as many bytes as the extents say");
  } catch (const UsageError&) {
  }
  return 0;
}
