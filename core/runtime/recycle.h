#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

/// Host memory for what every training step makes and drops again: the nodes of its graph, the
/// states of its gradients, the engine's lists. Tensors' own memory is CachingAllocator's.
///
/// Each thread keeps the blocks it gave back, one free list per size, up to 64 MiB of each: no
/// lock, no search, and a steady step takes nothing from the system. Beyond that blocks of up to 1
/// KiB wait for any thread of the process, and larger ones go back to the system. A block may be
/// given back on another thread than the one that took it, and after this thread's lists are gone.
/// Blocks begin on a cache line, so the first 64 bytes of an object are one; those of up to 1 KiB
/// that are taken one after the other lie one behind the other. Builds with a sanitizer keep
/// nothing, because a block that is used again hides a use after its end.
namespace brigade {

void* take_block(std::size_t bytes);
void give_back_block(void* block, std::size_t bytes) noexcept;

/// A standard allocator of such blocks.
template <class T>
struct Recycling {
  using value_type = T;

  Recycling() = default;
  template <class Other>
  explicit(false) Recycling(const Recycling<Other>& /*other*/) {}

  T* allocate(std::size_t count) { return static_cast<T*>(take_block(count * kBytes)); }
  void deallocate(T* block, std::size_t count) noexcept { give_back_block(block, count * kBytes); }

  // NOLINTNEXTLINE(bugprone-sizeof-expression): T may be a pointer, and lists hold pointers
  static constexpr std::size_t kBytes = sizeof(T);
  friend bool operator==(const Recycling&, const Recycling&) { return true; }
};

template <class T>
using RecyclingVector = std::vector<T, Recycling<T>>;

/// std::make_shared in a recycled block.
template <class T, class... Args>
std::shared_ptr<T> make_recycled(Args&&... args) {
  return std::allocate_shared<T>(Recycling<T>(), std::forward<Args>(args)...);
}

}  // namespace brigade
