#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

namespace brigade::apps {

/// A program that ends before it starts: what to print and which code to exit with (--help and
/// --version: 0, mistakes: 2).
struct EarlyExit {
  std::string text;
  int exit_code = 0;
};

/// Before the flags are declared: the last of a repeated one wins, as in all programs.
void prepare_command_line(CLI::App& app);

/// Adds --help and --version, parses, refuses what is unknown with the likeliest meant, and calls
/// `finish`, which may throw UsageErrors of its own. Nothing when all is well.
std::optional<EarlyExit> parse_command_line(CLI::App& app, int argc, const char* const* argv,
                                            const std::function<void()>& finish);

/// Everything as typed, with spaces between.
std::string as_typed(int argc, const char* const* argv);

}  // namespace brigade::apps
