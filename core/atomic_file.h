#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace brigade {

/// A file that appears under its name complete or not at all: written beside it, fsynced, renamed.
///
/// What is destroyed without commit() leaves no trace, and an older file of that name stays as it
/// was. All errors are UsageErrors with the system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(std::span<const std::byte> bytes);

  /// Gives the file its name. Nothing may follow.
  void commit();

 private:
  [[noreturn]] void fail(const std::string& reason) const;
  void require(bool succeeded) const;  ///< else fails with errno's text

  std::filesystem::path path_;
  std::string temporary_;
  int fd_ = -1;
};

}  // namespace brigade
