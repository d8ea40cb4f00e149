#include "nn/json_file.h"

#include <fstream>

#include "core/io/read_file.h"

namespace brigade {

nlohmann::json read_json_object(const std::filesystem::path& path) {
  using Json = nlohmann::json;
  constexpr int kDeepest = 3;
  std::ifstream file = open_to_read(path);
  bool too_deep = false;
  const auto note_depth = [&](int depth, Json::parse_event_t, const Json&) {
    too_deep = too_deep || depth > kDeepest;
    return !too_deep;
  };
  Json json = Json::parse(file, note_depth, /*allow_exceptions=*/false);
  if (too_deep || !json.is_object()) {
    fail_to_read(path, too_deep ? "expected a JSON object, got one nested too deeply"
                                : "expected a JSON object");
  }
  return json;
}

}  // namespace brigade
