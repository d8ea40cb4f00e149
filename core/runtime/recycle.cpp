#include "core/runtime/recycle.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <mutex>
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
  const std::size_t lines = std::max<std::size_t>(1, (bytes + kLine - 1) / kLine);
  const auto beyond = static_cast<std::size_t>(std::bit_width((lines - 1) / kFine));
  return lines <= kFine ? lines : kFine + beyond;
}

std::size_t bytes_of(std::size_t size_class) {
  return size_class <= kFine ? size_class * kLine : (kFine * kLine) << (size_class - kFine);
}

using Blocks = std::array<std::vector<void*>, kClasses>;

/// Where small blocks come from: cut from slabs, in order, so that what is taken one after the
/// other lies one behind the other. A walk over a graph of 100,000 nodes then reads memory as it
/// comes, through a few hundred entries of the page table instead of tens of thousands.
///
/// Any thread; a lock guards it. Slabs stay until the process ends: a block may outlive the thread
/// that took it, and the next thread takes what an ended one leaves here.
class Slabs {
 public:
  /// Never destroyed: thread_local objects of the main thread come back later than statics go.
  static Slabs& instance() {
    static auto* slabs = new Slabs;
    return *slabs;
  }

  /// At least one block, the last the one to use first.
  void take(std::size_t size_class, std::vector<void*>& blocks) {
    const std::lock_guard lock(mutex_);
    const std::size_t bytes = bytes_of(size_class);
    std::vector<void*>& left = unused_[size_class];
    if (!left.empty()) {
      // Not all: another thread may be about to come for the same.
      const std::size_t count = std::min(left.size(), kLeastSlab / bytes);
      blocks.assign(left.end() - static_cast<std::ptrdiff_t>(count), left.end());
      left.resize(left.size() - count);
      return;
    }
    // As much again as there is, so a small model has small slabs and a large one has few.
    const std::size_t slab = std::clamp(cut_[size_class], kLeastSlab, kHugePage);
    const bool huge = slab == kHugePage;
    const std::align_val_t alignment{huge ? kHugePage : kLine};
    auto* begin = static_cast<std::byte*>(::operator new(slab, alignment));
    slabs_.push_back(begin);
    if (huge) {
      madvise(begin, slab, MADV_HUGEPAGE);  // a wish: where it is refused, pages are small
    }
    cut_[size_class] += slab;
    blocks.reserve(cut_[size_class] / bytes);
    for (std::size_t i = slab / bytes; i > 0; --i) {
      blocks.push_back(begin + (i - 1) * bytes);
    }
  }

  void give_back(std::size_t size_class, void* block) {
    const std::lock_guard lock(mutex_);
    unused_[size_class].push_back(block);
  }

 private:
  static constexpr std::size_t kLeastSlab = std::size_t{16} << 10U;  // bytes
  static constexpr std::size_t kHugePage = std::size_t{2} << 20U;

  std::mutex mutex_;
  std::vector<std::byte*> slabs_;  // so that who looks for leaks finds them
  Blocks unused_;
  std::array<std::size_t, kClasses> cut_{};  // bytes so far
};

bool is_small(std::size_t size_class) {
  return size_class <= kFine;
}

void release(std::size_t size_class, void* block) {
  if (is_small(size_class)) {
    Slabs::instance().give_back(size_class, block);
  } else {
    ::operator delete (block, std::align_val_t{kLine});
  }
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
    for (std::size_t size_class = 0; size_class < kClasses; ++size_class) {
      for (void* block : blocks_[size_class]) {
        release(size_class, block);
      }
    }
  }

  void* take(std::size_t size_class) {
    std::vector<void*>& blocks = blocks_[size_class];
    if (blocks.empty()) {
      if (!is_small(size_class)) {
        return ::operator new (bytes_of(size_class), std::align_val_t{kLine});
      }
      Slabs::instance().take(size_class, blocks);
    }
    void* block = blocks.back();
    blocks.pop_back();
    return block;
  }

  void give_back(std::size_t size_class, void* block) {
    std::vector<void*>& blocks = blocks_[size_class];
    if ((blocks.size() + 1) * bytes_of(size_class) <= kMostKept) {
      blocks.push_back(block);
    } else {
      release(size_class, block);
    }
  }

 private:
  Blocks blocks_;
};

thread_local FreeLists lists;

/// At a thread's very end, when its lists are gone.
void* take_without_list(std::size_t size_class) {
  if (!is_small(size_class)) {
    return ::operator new (bytes_of(size_class), std::align_val_t{kLine});
  }
  std::vector<void*> blocks;
  Slabs::instance().take(size_class, blocks);
  void* first = blocks.back();
  blocks.pop_back();
  for (void* block : blocks) {
    Slabs::instance().give_back(size_class, block);
  }
  return first;
}

bool recycles(std::size_t size_class) {
  return !kSanitized && size_class < kClasses;
}

}  // namespace

void* take_block(std::size_t bytes) {
  const std::size_t size_class = class_of(bytes);
  if (!recycles(size_class)) {
    return ::operator new (bytes_of(size_class), std::align_val_t{kLine});
  }
  return lists_are_gone ? take_without_list(size_class) : lists.take(size_class);
}

void give_back_block(void* block, std::size_t bytes) noexcept {
  const std::size_t size_class = class_of(bytes);
  if (!recycles(size_class)) {
    ::operator delete (block, std::align_val_t{kLine});
  } else if (lists_are_gone) {
    release(size_class, block);
  } else {
    lists.give_back(size_class, block);
  }
}

}  // namespace brigade
