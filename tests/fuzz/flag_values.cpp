// The text behind a flag. The first byte chooses the flag.
#include "apps/flags/flag_values.h"

#include <cmath>
#include <limits>

#include "apps/flags/fault_flag.h"
#include "apps/flags/hook_flag.h"
#include "core/error.h"
#include "tests/fuzz/target.h"

namespace {

void parse(int flag, const std::string& text) {
  using namespace brigade::apps;
  using brigade::test::require;
  constexpr double kMost = std::numeric_limits<double>::max();
  if (flag == 0) {
    const auto value = parse_number<std::int64_t>("--steps", text, 1, 1'000'000'000);
    require(value >= 1 && value <= 1'000'000'000, "a number in range");
  } else if (flag == 1) {
    parse_number<std::uint64_t>("--seed", text, 0, std::numeric_limits<std::uint64_t>::max());
  } else if (flag == 2) {
    require(std::isfinite(parse_number("--lr", text, kAboveZero, kMost)), "a finite number");
  } else if (flag == 3) {
    for (const std::int64_t width : parse_widths("--hidden", text)) {
      require(width >= 1 && width <= 1'000'000, "a width in range");
    }
  } else if (flag == 4) {
    require(parse_link("--emulate-link", text).gigabytes_per_s > 0.0, "a link that moves");
  } else if (flag == 5) {
    require(make_comm_hook(text) != nullptr, "a hook");
  } else if (flag == 6) {
    require(parse_fault("--inject", text).rank >= 0, "a rank");
  } else {
    require(!parse_list("--modes", text, {"naive", "flat", "overlap"}).empty(), "a list");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::uint8_t> bytes(data, size);
  const int flag = brigade::test::take_byte(bytes) % 8;
  try {
    parse(flag, brigade::test::text_of(bytes));
  } catch (const brigade::UsageError&) {
  }
  return 0;
}
