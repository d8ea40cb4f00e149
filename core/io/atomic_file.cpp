#include "core/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/io/file_descriptor.h"

namespace brigade {

namespace fs = std::filesystem;

/// Written bytes that may be in the page cache at a time.
constexpr std::size_t kPiece = std::size_t{4} << 20U;

AtomicFile::AtomicFile(const fs::path& path) : path_(path) {
  // A rename onto /dev/null would replace the device.
  std::error_code absent;
  if (fs::exists(path, absent) && !fs::is_regular_file(path, absent)) {
    throw UsageError(
        fmt::format("cannot write {}: it exists and is not a regular file", path.string()));
  }
  // Beside `path`, because a rename is atomic only within one file system. The number passes over
  // what a killed process of the same id left behind.
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    temporary_ = path.string() + fmt::format(".tmp{}-{}", ::getpid(), attempt);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ >= 0 || errno != EEXIST) {
      break;
    }
  }
  if (fd_ < 0) {
    throw UsageError(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) {
    ::close(fd_);
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), std::min(bytes.size(), kPiece));
    require(written >= 0 || errno == EINTR);
    bytes = bytes.subspan(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    written_ += std::max<ssize_t>(written, 0);
    if (written_ - dropped_ >= static_cast<off_t>(kPiece)) {
      drop_from_page_cache();
    }
  }
}

/// Nobody reads a file just written, yet each of its pages would be new to this process: in a
/// virtual machine, memory that the host must find first, five times as slow as the copy itself.
/// Where a file system cannot do this, its pages stay. A disk that is full is reported here, and
/// fsync would not report it again.
void AtomicFile::drop_from_page_cache() {
  constexpr unsigned kWrite =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  const bool synced = ::sync_file_range(fd_, dropped_, written_ - dropped_, kWrite) == 0;
  require(synced || errno == ENOSYS || errno == EINVAL || errno == ESPIPE);
  ::posix_fadvise(fd_, dropped_, written_ - dropped_, POSIX_FADV_DONTNEED);
  dropped_ = written_;
}

void AtomicFile::commit() {
  require(::fsync(fd_) == 0);  // the data must be on the disk before the name leads to it
  require(::rename(temporary_.c_str(), path_.c_str()) == 0);
  require(::close(std::exchange(fd_, -1)) == 0);
  sync_directory(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
}

void AtomicFile::require(bool succeeded) const {
  if (!succeeded) {
    throw Error(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
  }
}

void write_file_atomically(const fs::path& path, const std::string& content) {
  AtomicFile file(path);
  file.append(std::as_bytes(std::span(content)));
  file.commit();
}

void sync_directory(const fs::path& path) {
  const FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.valid()) {
    ::fsync(directory.get());
  }
}

}  // namespace brigade
