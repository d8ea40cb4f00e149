#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace brigade::apps {

/// A program that ends before it starts: what to print and which code to exit with (--help and
/// --version: 0, mistakes: 2).
struct EarlyExit {
  std::string text;
  int exit_code = 0;
};

/// The outcome of parsing. `options` are complete only without an `exit`.
template <class T>
struct Parsed {
  T options;
  std::optional<EarlyExit> exit;
};

/// Before the flags are declared: the last of a repeated one wins, as in all programs.
void prepare_command_line(CLI::App& app);

/// Adds --config, which reads flags from a TOML file. Flags on the command line win over it.
void add_config_flag(CLI::App& app);

/// Adds --help, --help-all and --version, parses, refuses what is unknown with the likeliest meant,
/// and calls `finish`, which may throw UsageErrors of its own. Nothing when all is well.
std::optional<EarlyExit> parse_command_line(CLI::App& app, int argc, const char* const* argv,
                                            const std::function<void()>& finish);

/// For flags that say one thing in different ways, such as --hidden and --depth: forgets all those
/// of `ways` but the way that was named last. Scripts put their defaults before the user's flags,
/// so the last one wins rather than being an error; so does the command line over a config file.
void keep_last(CLI::App& app, const std::vector<std::vector<std::string>>& ways);

/// A line of TOML for every flag, in the order of declaration: `batch = 64` if it was given, else
/// the comment `# batch`. What a config file can hold, and what ranks can compare.
std::vector<std::string> config_lines(const CLI::App& app);

}  // namespace brigade::apps
