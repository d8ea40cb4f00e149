#include "core/recycle.h"

#include <array>
#include <bit>
#include <new>
#include <vector>

#include "core/config.h"

namespace brigade {
namespace {

constexpr std::size_t kLine = 64;     // bytes: a cache line
constexpr std::size_t kFine = 16;     // sizes up to so many lines have a list each
constexpr std::size_t kClasses = 32;  // of the larger ones, each power of two, up to 32 MiB
constexpr std::size_t kMostKept = std::size_t{64} << 20U;  // bytes per class

std::size_t class_of(std::size_t bytes) {
  const std::size_t lines = (bytes + kLine - 1) / kLine;
  const auto beyond = static_cast<std::size_t>(std::bit_width((lines - 1) / kFine));
  return lines <= kFine ? lines : kFine + beyond;
}

std::size_t bytes_of(std::size_t size_class) {
  return size_class <= kFine ? size_class * kLine : (kFine * kLine) << (size_class - kFine);
}

/// Set when this thread's lists are gone. Has no destructor itself, so it may be asked until the
/// thread's very end, when other thread_local objects still give blocks back.
thread_local bool lists_are_gone = false;

/// The blocks that wait for reuse. Their addresses are kept beside them and not in them: to take
/// one must not wait for memory that will only be written.
class FreeLists {
 public:
  FreeLists() = default;
  FreeLists(const FreeLists&) = delete;
  FreeLists& operator=(const FreeLists&) = delete;
  ~FreeLists() {
    lists_are_gone = true;
    for (const std::vector<void*>& blocks : blocks_) {
      for (void* block : blocks) {
        ::operator delete (block, std::align_val_t{kLine});
      }
    }
  }

  void* take(std::size_t size_class) {
    std::vector<void*>& blocks = blocks_[size_class];
    if (blocks.empty()) {
      return nullptr;
    }
    void* block = blocks.back();
    blocks.pop_back();
    return block;
  }

  bool keep(void* block, std::size_t size_class) noexcept {
    std::vector<void*>& blocks = blocks_[size_class];
    const bool room = (blocks.size() + 1) * bytes_of(size_class) <= kMostKept;
    if (room) {
      blocks.push_back(block);
    }
    return room;
  }

 private:
  std::array<std::vector<void*>, kClasses> blocks_;
};

thread_local FreeLists lists;

bool recycles(std::size_t size_class) {
  return !kSanitized && !lists_are_gone && size_class < kClasses;
}

}  // namespace

void* take_block(std::size_t bytes) {
  const std::size_t size_class = class_of(bytes);
  void* block = recycles(size_class) ? lists.take(size_class) : nullptr;
  return block != nullptr ? block : ::operator new (bytes_of(size_class), std::align_val_t{kLine});
}

void give_back_block(void* block, std::size_t bytes) noexcept {
  const std::size_t size_class = class_of(bytes);
  if (!recycles(size_class) || !lists.keep(block, size_class)) {
    ::operator delete (block, std::align_val_t{kLine});
  }
}

}  // namespace brigade
