// checkpoint.json.
#include "core/error.h"
#include "core/io/checkpoint_store.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  try {
    const CheckpointInfo info = CheckpointInfo::parse(test::text_of({data, size}), "checkpoint");
    test::require(info.step >= 0 && info.batches >= 0 && info.ranks >= 1, "numbers in range");
    for (const auto& [name, file] : info.files) {
      test::require(!name.empty() && name[0] != '.' && name.find('/') == std::string::npos,
                    "names that stay in the directory");
    }
    const std::string json = info.to_json();
    test::require(CheckpointInfo::parse(json, "again").to_json() == json, "the same when written");
  } catch (const UsageError&) {
  }
  return 0;
}
