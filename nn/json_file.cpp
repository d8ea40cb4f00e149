#include "nn/json_file.h"

#include <fstream>

#include "core/error.h"
#include "core/io/safetensors.h"

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
    throw UsageError(message_of("cannot read ", path.string(), ": expected a JSON object",
                                too_deep ? ", got one nested too deeply" : ""));
  }
  return json;
}

}  // namespace brigade
