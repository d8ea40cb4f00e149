#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "apps/flags/flag_values.h"

namespace brigade::apps {

/// Declares flags, each in the current group. CLI11 splits the command line and the config file;
/// flag_values.h converts what stands behind a flag, because CLI11 reads 010 as octal and words its
/// errors differently. Bound variables must outlive the parsing, which may outlive this.
class FlagGroups {
 protected:
  static constexpr std::int64_t kMany = 1'000'000'000;

  explicit FlagGroups(CLI::App& app) : app_(app) {}

  /// Flags of a group whose name begins with "More" are listed by --help-all alone.
  void group(const char* name) { group_ = name; }

  void text(const char* flag, const char* type, std::string& target, const char* help) {
    value(flag, type, target, check_not_empty, help);
  }

  void toggle(const char* flag, bool& target, const char* help, bool value = true) {
    app_.add_flag_callback(
            flag, [&target, value] { target = value; }, help)
        ->group(group_);
  }

  /// `help` comes before the names that are allowed and the default.
  void choice(const char* flag, std::string& target, const std::vector<std::string>& allowed,
              const char* help = "") {
    value(
        flag, "NAME", target,
        [allowed](const std::string& name, const std::string& text) {
          check_choice(name, text, allowed);
          return text;
        },
        fmt::format("{}{} ({})", help, fmt::join(allowed, " | "), target));
  }

  template <class T>
  void number(const char* flag, T& target, T least, T most, const char* help) {
    value(
        flag, std::is_floating_point_v<T> ? "X" : "N", target,
        [least, most](const std::string& name, const std::string& text) {
          return parse_number(name, text, least, most);
        },
        help);
  }

  void count(const char* flag, std::int64_t& target, std::int64_t least, const char* help) {
    number(flag, target, least, kMany, help);
  }

  /// Any other value: `parse` makes it from (flag, text).
  template <class T, class Parse>
  void value(const char* flag, const char* type, T& target, Parse parse, const std::string& help) {
    const std::string name = std::strstr(flag, "--");  // of "-b,--min-bytes"
    const auto assign = [name, &target, parse](const std::string& text) {
      target = parse(name, text);
    };
    app_.add_option_function<std::string>(flag, assign, help)->group(group_)->type_name(type);
  }

 private:
  CLI::App& app_;
  std::string group_;
};

}  // namespace brigade::apps
