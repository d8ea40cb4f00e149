// A command line, one argument per line of the input. The first byte chooses the program.
#include <vector>

#include "apps/flags/options.h"
#include "core/error.h"
#include "tests/fuzz/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brigade;
  std::span<const std::uint8_t> bytes(data, size);
  const auto program = static_cast<apps::Program>(test::take_byte(bytes) % 3);
  std::string text = "train_mlp\n" + test::text_of(bytes);
  std::vector<const char*> arguments{text.data()};
  for (char& character : text) {
    if (character == '\n') {
      character = '\0';
      arguments.push_back(&character + 1);
    }
  }
  arguments.push_back(nullptr);
  const int count = static_cast<int>(arguments.size()) - 1;
  const apps::Parsed<apps::Options> parsed = apps::parse_options(count, arguments.data(), program);
  test::require(!parsed.exit || !parsed.exit->text.empty(), "either options or a text");
  if (!parsed.exit) {
    static_cast<void>(parsed.options.data_parallel());
    static_cast<void>(parsed.options.agreement());
  }
  return 0;
}
