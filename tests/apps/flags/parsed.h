#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/flags/options.h"

/// Flags of train_mlp, parsed.
namespace brigade::apps {

inline ParseResult parse(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "train_mlp");
  return parse_options(static_cast<int>(flags.size()), flags.data());
}

inline Options parsed(const std::vector<const char*>& flags) {
  const ParseResult result = parse(flags);
  EXPECT_TRUE(result.options.has_value()) << result.text;
  return result.options.value_or(Options{});
}

/// The one line that is printed for flags that are wrong.
inline std::string complaint(const std::vector<const char*>& flags) {
  const ParseResult result = parse(flags);
  EXPECT_FALSE(result.options.has_value());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(std::count(result.text.begin(), result.text.end(), '\n'), 1);
  return result.text;
}

}  // namespace brigade::apps
