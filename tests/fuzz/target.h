#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

/// What fuzz targets share. Each target is one LLVMFuzzerTestOneInput, called with any bytes: by
/// libFuzzer, or for the files of its corpus by replay.cpp.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace brigade::test {

/// Ends the process with `what` if the parser has broken its contract.
void require(bool holds, const char* what);

/// The path of a file in memory with these bytes; the next call replaces them.
std::string file_of(std::span<const std::uint8_t> bytes);

/// Cuts the first byte off; 0 if there is none.
std::uint8_t take_byte(std::span<const std::uint8_t>& bytes);

inline std::string text_of(std::span<const std::uint8_t> bytes) {
  return {bytes.begin(), bytes.end()};
}

}  // namespace brigade::test
