#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <sstream>
#include <string>

namespace brigade {

/// Base of fmt::formatter<T> for a T with operator<<. fmt::ostream_formatter does the same, but its
/// header takes as long to compile as a small source file.
struct StreamFormatter {
  constexpr auto parse(fmt::format_parse_context& context) const { return context.begin(); }
  template <class T>
  auto format(const T& value, fmt::format_context& context) const {
    std::ostringstream text;
    text << value;
    const std::string shown = text.str();
    return std::copy(shown.begin(), shown.end(), context.out());
  }
};

}  // namespace brigade
