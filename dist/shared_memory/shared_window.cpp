#include "dist/shared_memory/shared_window.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace brigade::dist {
namespace {

/// A file descriptor, closed at the end.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) {
      close(descriptor_);
    }
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

/// How the others find a rank's file, and tell that it is the right one.
struct Offer {
  pid_t process = 0;
  int descriptor = 0;
  dev_t device = 0;
  ino_t inode = 0;
};

Offer describe(const File& file) {
  struct stat status {};
  fstat(file.descriptor(), &status);
  return {getpid(), file.descriptor(), status.st_dev, status.st_ino};
}

/// Null with errno when the file cannot be had.
std::byte* map(const Offer& offer, std::size_t bytes) {
  const std::string path = message_of("/proc/", offer.process, "/fd/", offer.descriptor);
  const File file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  const int why = errno;
  const Offer found = describe(file);
  // In containers that do not see each other's processes, that number may be somebody else's.
  if (file.descriptor() < 0 || found.device != offer.device || found.inode != offer.inode) {
    errno = file.descriptor() < 0 ? why : ESRCH;
    return nullptr;
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

/// Every rank learns every rank's outcome, so that all throw or none does: a rank that left alone
/// would be waited for. `mine` is errno, 0 if all is well. Collective.
void check_all(Communicator& ranks, int mine, const char* what) {
  const std::vector<int> outcomes = all_gather_values(ranks, mine);
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    BRIGADE_CHECK(outcomes[rank] == 0, "shared memory: rank ", rank, " cannot ", what, ": ",
                  std::strerror(outcomes[rank]), "; use --comm mpi");
  }
}

}  // namespace

SharedWindow::SharedWindow(Communicator& ranks, std::size_t bytes)
    : bytes_(bytes), parts_(static_cast<std::size_t>(ranks.size())) {
  if (bytes == 0) {
    return;
  }
  const File file(memfd_create("brigade-window", MFD_CLOEXEC));
  // Pages come with the first access, by the rank that computes there: on its own NUMA node.
  const bool made =
      file.descriptor() >= 0 && ftruncate(file.descriptor(), static_cast<off_t>(bytes)) == 0;
  check_all(ranks, made ? 0 : errno, "allocate its part");
  const std::vector<Offer> offers = all_gather_values(ranks, describe(file));
  int failure = 0;
  for (std::size_t rank = 0; rank < offers.size() && failure == 0; ++rank) {
    parts_[rank] = map(offers[rank], bytes);
    failure = parts_[rank] == nullptr ? errno : 0;
  }
  try {
    check_all(ranks, failure, "map the others' memory");  // from here on `file` may go
  } catch (...) {
    release();
    throw;
  }
}

SharedWindow::~SharedWindow() {
  release();
}

void SharedWindow::release() noexcept {
  for (std::byte*& part : parts_) {
    if (part != nullptr) {
      munmap(part, bytes_);
      part = nullptr;
    }
  }
}

}  // namespace brigade::dist
