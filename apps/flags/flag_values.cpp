#include "apps/flags/flag_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <type_traits>
#include <utility>

#include "core/error.h"

namespace brigade::apps {

namespace {

constexpr std::int64_t kWidestLayer = 1'000'000;

/// Optimal string alignment distance: Levenshtein's, where two swapped neighbours count once.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> two_above, above, row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    two_above = std::exchange(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], two_above[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return parts;
}

template <class T>
T parse_number(const std::string& flag, const std::string& text, T least, T most) {
  T value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  // Written so that NaN fails too.
  if (result.ec == std::errc{} && result.ptr == end && value >= least && value <= most) {
    return value;
  }
  const bool above_zero = static_cast<double>(least) == kAboveZero;
  const std::string from = above_zero ? "greater than 0" : fmt::format("from {}", least);
  const std::string to = static_cast<double>(most) == kBelowOne ? " to less than 1"
                         : most < std::numeric_limits<T>::max() ? fmt::format(" to {}", most)
                         : above_zero                           ? ""
                                                                : " up";
  throw UsageError(fmt::format("{}: expected a {}number {}{}, got \"{}\"", flag,
                               std::is_floating_point_v<T> ? "" : "whole ", from, to, text));
}

template double parse_number(const std::string&, const std::string&, double, double);
template std::int64_t parse_number(const std::string&, const std::string&, std::int64_t,
                                   std::int64_t);
template std::uint64_t parse_number(const std::string&, const std::string&, std::uint64_t,
                                    std::uint64_t);

std::vector<std::int64_t> parse_widths(const std::string& flag, const std::string& text) {
  std::vector<std::int64_t> widths;
  if (text == "none") {
    return widths;
  }
  for (const std::string& part : split_at_commas(text)) {
    widths.push_back(parse_number<std::int64_t>(flag, part, 1, kWidestLayer));
  }
  return widths;
}

std::vector<std::string> parse_list(const std::string& flag, const std::string& text,
                                    const std::vector<std::string>& allowed) {
  std::vector<std::string> list;
  for (const std::string& part : split_at_commas(text)) {
    check_choice(flag, part, allowed);
    if (std::find(list.begin(), list.end(), part) != list.end()) {
      throw UsageError(fmt::format("{}: expected each once, got \"{}\" twice", flag, part));
    }
    list.push_back(part);
  }
  return list;
}

dist::LinkModel parse_link(const std::string& flag, const std::string& text) {
  constexpr double kLongestLatency = 1e6;
  constexpr double kSlowestLink = 1e-3;
  const std::vector<std::string> parts = split_at_commas(text);
  if (parts.size() != 2) {
    throw UsageError(fmt::format(
        "{}: expected a latency in us and a bandwidth in GB/s, such as 50,1, got \"{}\"", flag,
        text));
  }
  return {.alpha_us = parse_number(flag + " (latency in us)", parts[0], 0.0, kLongestLatency),
          .gigabytes_per_s = parse_number(flag + " (bandwidth in GB/s)", parts[1], kSlowestLink,
                                          std::numeric_limits<double>::max())};
}

std::string check_not_empty(const std::string& flag, const std::string& text) {
  if (text.empty()) {  // as the shell makes it of a variable that is not set
    throw UsageError(fmt::format("{}: expected a name, got \"\"; leave the flag out", flag));
  }
  return text;
}

void check_choice(const std::string& flag, const std::string& text,
                  const std::vector<std::string>& allowed) {
  if (std::find(allowed.begin(), allowed.end(), text) != allowed.end()) {
    return;
  }
  throw UsageError(fmt::format("{}: expected one of {}, got \"{}\"{}", flag,
                               fmt::join(allowed, ", "), text, suggestion(text, allowed)));
}

std::string closest_match(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t least = word.size() / 3 + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string match = closest_match(word, candidates);
  return match.empty() ? "" : fmt::format("; did you mean {}?", match);
}

}  // namespace brigade::apps
