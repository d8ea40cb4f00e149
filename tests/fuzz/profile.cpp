// profile.json, which ddp_plan reads.
#include "apps/plan/profile.h"

#include <algorithm>

#include "core/error.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  try {
    const apps::Profile profile = apps::read_profile(test::file_of({data, size}));
    test::require(profile.ranks >= 1 && profile.batch >= 1 && !profile.parameters.empty(),
                  "numbers in range");
    test::require(std::ranges::is_sorted(profile.all_reduce, {}, &dist::LinkPoint::bytes),
                  "sizes that grow");
    const std::string json = apps::profile_json(profile);
    const apps::Profile again = apps::read_profile(
        test::file_of({reinterpret_cast<const std::uint8_t*>(json.data()), json.size()}));
    test::require(apps::profile_json(again) == json, "the same when written");
  } catch (const UsageError&) {
  }
  return 0;
}
