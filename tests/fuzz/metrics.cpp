// metrics.jsonl of the run that is continued.
#include <algorithm>

#include "apps/report/summary.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  const std::string kept = apps::metrics_until(test::file_of({data, size}), 100);
  const auto same = std::ranges::mismatch(kept, test::text_of({data, size})).in1;
  test::require(kept.empty() || (kept.back() == '\n' && std::distance(same, kept.end()) <= 1),
                "whole lines from the beginning of the file");
  return 0;
}
