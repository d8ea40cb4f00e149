#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace brigade {

/// GPT-2's letter of a byte.
inline std::string gpt2_letter(int byte) {
  int code = byte;
  const auto printable = [](int b) { return (b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad); };
  if (!printable(byte)) {
    code = 256;
    for (int before = 0; before < byte; ++before) {
      code += printable(before) ? 0 : 1;
    }
  }
  if (code < 0x80) {
    return {static_cast<char>(code)};
  }
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

/// The 256 bytes in order, then "he", "ll", "hell", "Ġw" (a space and w), "12".
inline nlohmann::json small_vocabulary() {
  nlohmann::json vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary[gpt2_letter(byte)] = byte;
  }
  int next = 256;
  for (const char* token : {"he", "ll", "hell", "Ġw", "12"}) {
    vocabulary[token] = next++;
  }
  return vocabulary;
}

}  // namespace brigade
