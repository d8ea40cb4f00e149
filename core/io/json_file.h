#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace brigade {

/// A callback for Json::parse. UsageError if the text has more than `deepest` levels, because the
/// library calls itself once per level to print a value.
inline auto no_deeper_than(int deepest) {
  return [deepest](int depth, auto /*event*/, const auto& /*value*/) {
    if (depth > deepest) {
      throw UsageError("nested too deeply");
    }
    return true;
  };
}

/// The JSON object in a file. UsageError: it cannot be read, is something else, or is nested more
/// than three levels deep.
nlohmann::json read_json_object(const std::filesystem::path& path);

}  // namespace brigade
