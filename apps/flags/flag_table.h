#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "apps/flags/flag_values.h"

namespace brigade::apps {

/// Declares flags, each in the current group. CLI11 hands over text; flag_values.h converts it.
class FlagTable {
 public:
  explicit FlagTable(CLI::App& app) : app_(app) {}

  void group(const char* name) { group_ = name; }

  void text(const char* flag, const char* type, std::string& target, const char* help) {
    option(flag, type, help, [flag, &target](const std::string& value) {
      check_not_empty(flag, value);  // the shell's, of a variable that is not set
      target = value;
    });
  }

  void toggle(const char* flag, const char* help, std::function<void()> set) {
    app_.add_flag_callback(flag, std::move(set), help)->group(group_);
  }

  void choice(const char* flag, std::string& target, const std::vector<std::string>& allowed,
              const char* help) {
    option(flag, "NAME", help, [flag, &target, allowed](const std::string& value) {
      check_choice(flag, value, allowed);
      target = value;
    });
  }

  template <class T>
  void number(const char* flag, T& target, T least, T most, const char* help) {
    option(flag, std::is_floating_point_v<T> ? "X" : "N", help,
           [flag, &target, least, most](const std::string& value) {
             target = parse_number(flag, value, least, most);
           });
  }

  void count(const char* flag, std::int64_t& target, std::int64_t least, const char* help) {
    constexpr std::int64_t kMany = 1'000'000'000;
    number(flag, target, least, kMany, help);
  }

  /// "naive,overlap": some of `allowed`, each once.
  void list(const char* flag, std::vector<std::string>& target,
            const std::vector<std::string>& allowed, const char* help) {
    option(flag, "A,B,..", help, [flag, &target, allowed](const std::string& value) {
      target = parse_list(flag, value, allowed);
    });
  }

  void widths(const char* flag, std::vector<std::int64_t>& target, const char* help) {
    option(flag, "A,B,..", help,
           [flag, &target](const std::string& value) { target = parse_widths(flag, value); });
  }

  /// Any other value: `parse` makes it from (flag, text).
  template <class T, class Parse>
  void value(const char* flag, const char* type, T& target, Parse parse, const char* help) {
    option(flag, type, help,
           [flag, &target, parse](const std::string& text) { target = parse(flag, text); });
  }

 private:
  void option(const char* flag, const char* type, const char* help,
              const std::function<void(const std::string&)>& assign) {
    app_.add_option_function<std::string>(flag, assign, help)->group(group_)->type_name(type);
  }

  CLI::App& app_;
  std::string group_;
};

}  // namespace brigade::apps
