#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/flags/options.h"

/// Flags of train_mlp, or of another program, parsed.
namespace brigade::apps {

inline Parsed<Options> parse(std::vector<const char*> flags, Program program = Program::train_mlp) {
  flags.insert(flags.begin(), "train_mlp");
  return parse_options(static_cast<int>(flags.size()), flags.data(), program);
}

inline Options parsed(const std::vector<const char*>& flags, Program program = Program::train_mlp) {
  const Parsed<Options> result = parse(flags, program);
  EXPECT_FALSE(result.exit.has_value()) << result.exit.value_or(EarlyExit{}).text;
  return result.options;
}

/// The one line that is printed for flags that are wrong.
inline std::string complaint(const std::vector<const char*>& flags,
                             Program program = Program::train_mlp) {
  const EarlyExit exit = parse(flags, program).exit.value_or(EarlyExit{});
  EXPECT_EQ(exit.exit_code, 2);
  EXPECT_EQ(std::count(exit.text.begin(), exit.text.end(), '\n'), 1);
  return exit.text;
}

}  // namespace brigade::apps
