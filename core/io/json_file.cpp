#include "core/io/json_file.h"

#include <fstream>

#include "core/io/read_file.h"

namespace brigade {

nlohmann::json read_json_object(const std::filesystem::path& path) {
  constexpr int kDeepest = 3;
  std::ifstream file = open_to_read(path);
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(file, no_deeper_than(kDeepest), /*allow_exceptions=*/false);
  } catch (const UsageError& error) {
    fail_to_read(path, fmt::format("expected a JSON object, got one {}", error.what()));
  }
  if (!json.is_object()) {
    fail_to_read(path, "expected a JSON object");
  }
  return json;
}

}  // namespace brigade
