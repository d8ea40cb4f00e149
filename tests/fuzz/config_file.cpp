// --config FILE, such as an earlier run's config.toml.
#include <array>

#include "apps/flags/options.h"
#include "core/error.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  const std::string path = test::file_of({data, size});
  const std::array<const char*, 3> arguments{"train_mlp", "--config", path.c_str()};
  const apps::Parsed<apps::Options> parsed = apps::parse_options(3, arguments.data());
  test::require(!parsed.exit || !parsed.exit->text.empty(), "either options or a text");
  return 0;
}
