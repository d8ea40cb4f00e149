#include "core/io/read_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include "core/error.h"

namespace brigade {

namespace fs = std::filesystem;

std::ifstream open_to_read(const fs::path& path) {
  std::error_code absent;
  if (fs::exists(path, absent) && !fs::is_regular_file(path, absent)) {
    fail_to_read(path, "it is not a regular file");  // to open a pipe is to wait for a writer
  }
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) {
    fail_to_read(path, std::strerror(errno));
  }
  return file;
}

std::string read_text(const fs::path& path) {
  std::ifstream file = open_to_read(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void fail_to_read(const fs::path& path, const std::string& reason) {
  throw UsageError(fmt::format("cannot read {}: {}", path.string(), reason));
}

}  // namespace brigade
