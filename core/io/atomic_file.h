#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace brigade {

/// A file that appears under its name complete or not at all: written beside it, fsynced, renamed.
///
/// What is destroyed without commit() leaves no trace, and an older file of that name stays as it
/// was. Errors carry the system's reason: a place that cannot be written is a UsageError, a disk
/// that fills up later an Error.
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
  void drop_from_page_cache();
  void require(bool succeeded) const;  ///< else an Error with errno's text

  std::filesystem::path path_;
  std::string temporary_;
  int fd_ = -1;
  off_t written_ = 0;
  off_t dropped_ = 0;  // of those, on their way to the disk and no longer in the page cache
};

/// Writes `content` to `path` as an AtomicFile does, with its errors.
void write_file_atomically(const std::filesystem::path& path, const std::string& content);

/// Writes the names in the directory `path` to the disk. Does nothing where the file system cannot.
void sync_directory(const std::filesystem::path& path);

}  // namespace brigade
