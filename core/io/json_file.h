#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace brigade {

/// The JSON object in a file. UsageError: it cannot be read, is something else, or is nested more
/// than three levels deep, because to print a value takes a call per level.
nlohmann::json read_json_object(const std::filesystem::path& path);

}  // namespace brigade
