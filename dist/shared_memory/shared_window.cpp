#include "dist/shared_memory/shared_window.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/io/file_descriptor.h"
#include "dist/comm/gather.h"

namespace brigade::dist {
namespace {

/// How other ranks find a rank's file and check that it is the right one.
struct FileIdentity {
  pid_t process = 0;
  int descriptor = 0;
  dev_t device = 0;
  ino_t inode = 0;
};

FileIdentity identify(const FileDescriptor& file) {
  struct stat status {};
  fstat(file.get(), &status);
  return {getpid(), file.get(), status.st_dev, status.st_ino};
}

/// Maps another rank's file. Null with errno if that fails.
SharedWindow::Mapping map(const FileIdentity& owner, std::size_t bytes) {
  const std::string path = fmt::format("/proc/{}/fd/{}", owner.process, owner.descriptor);
  const FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  const int why = errno;
  const FileIdentity found = identify(file);
  // Containers may not see each other's processes: then this is the file of another process.
  if (!file.valid() || found.device != owner.device || found.inode != owner.inode) {
    errno = file.valid() ? ESRCH : why;
    return {};
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  return {memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory), {bytes}};
}

/// Throws on all ranks if a rank failed; if one rank threw alone, the others would wait for it.
/// `mine`: errno of this rank, 0 if it succeeded. Collective.
void check_all(Communicator& ranks, int mine, const char* what) {
  const std::vector<int> outcomes = all_gather_values(ranks, mine);
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    BRIGADE_CHECK(outcomes[rank] == 0, "shared memory: rank {} cannot {}: {}; use --comm mpi", rank,
                  what, std::strerror(outcomes[rank]));
  }
}

}  // namespace

void SharedWindow::Unmap::operator()(std::byte* start) const {
  munmap(start, bytes);
}

SharedWindow::SharedWindow(Communicator& ranks, std::size_t bytes)
    : parts_(static_cast<std::size_t>(ranks.size())) {
  if (bytes == 0) {
    return;
  }
  const FileDescriptor file(memfd_create("brigade-window", MFD_CLOEXEC));
  // The first access allocates a page, by the rank that computes there: on its own NUMA node.
  const bool made = file.valid() && ftruncate(file.get(), static_cast<off_t>(bytes)) == 0;
  check_all(ranks, made ? 0 : errno, "allocate its part");
  const std::vector<FileIdentity> files = all_gather_values(ranks, identify(file));
  int failure = 0;
  for (std::size_t rank = 0; rank < files.size() && failure == 0; ++rank) {
    parts_[rank] = map(files[rank], bytes);
    failure = parts_[rank] ? 0 : errno;
  }
  check_all(ranks, failure, "map the others' memory");  // after this, `file` may be closed
}

}  // namespace brigade::dist
