#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

namespace brigade {

/// UsageError with the reason if the file cannot be opened. Never waits: a pipe is refused.
std::ifstream open_to_read(const std::filesystem::path& path);

/// All of a file, with the same error.
std::string read_text(const std::filesystem::path& path);

/// UsageError: "cannot read PATH: reason".
[[noreturn]] void fail_to_read(const std::filesystem::path& path, const std::string& reason);

}  // namespace brigade
