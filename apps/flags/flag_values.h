#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "dist/comm/emulated_link_communicator.h"

/// From the text after a flag to a value. Every mistake is a UsageError that reads alike: flag,
/// what was expected, what came.
namespace brigade::apps {

/// The least number that is greater than 0, as a lower bound.
inline constexpr double kAboveZero = std::numeric_limits<double>::min();
/// The greatest number that is less than 1, as an upper bound.
inline constexpr double kBelowOne = 1.0 - std::numeric_limits<double>::epsilon() / 2;

/// T is int64, uint64 or double. The whole text must be a number within [least, most].
template <class T>
T parse_number(const std::string& flag, const std::string& text, T least, T most);

/// "512,256" or "none".
std::vector<std::int64_t> parse_widths(const std::string& flag, const std::string& text);

/// "a,,b": the texts between the commas, empty ones too.
std::vector<std::string> split_at_commas(const std::string& text);

/// "naive,overlap": values of `allowed`, each at most once.
std::vector<std::string> parse_list(const std::string& flag, const std::string& text,
                                    const std::vector<std::string>& allowed);

/// "50,1": latency in µs, bandwidth in GB/s.
dist::LinkModel parse_link(const std::string& flag, const std::string& text);

/// `text`, which is not empty.
std::string check_not_empty(const std::string& flag, const std::string& text);

/// Refuses what is not one of `allowed`, with the likeliest meant.
void check_choice(const std::string& flag, const std::string& text,
                  const std::vector<std::string>& allowed);

/// The candidate that differs from `word` by the fewest inserted, dropped, changed or swapped
/// letters; empty when none differs by less than about a third of the word.
std::string closest_match(const std::string& word, const std::vector<std::string>& candidates);

/// "; did you mean X?" or nothing.
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace brigade::apps
