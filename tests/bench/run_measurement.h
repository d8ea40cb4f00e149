#pragma once

#include <charconv>
#include <cstdio>
#include <exception>
#include <string_view>
#include <vector>

namespace brigade::test {

/// The `main` of a program that measures. Its arguments take the place of the first `numbers`, and
/// measure(numbers) runs. Returns the exit code: 2 after one line that shows `usage` for arguments
/// that are no numbers from 1 to a million or too many, 1 after that of an exception (there is not
/// enough memory, say), else 0.
template <class Measure>
int run_measurement(int argc, char** argv, const char* usage, std::vector<int> numbers,
                    const Measure& measure) {
  constexpr int kMost = 1'000'000;
  for (int i = 1; i < argc; ++i) {
    const auto place = static_cast<std::size_t>(i - 1);
    const std::string_view text = argv[i];
    const char* end = text.data() + text.size();
    int value = 0;
    const auto [parsed, error] = std::from_chars(text.data(), end, value);
    const bool number = error == std::errc() && parsed == end && value >= 1 && value <= kMost;
    if (!number || place >= numbers.size()) {
      std::fprintf(stderr, "usage: %s, all from 1 to %d; got %s\n", usage, kMost, argv[i]);
      return 2;
    }
    numbers[place] = value;
  }
  try {
    measure(numbers);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace brigade::test
