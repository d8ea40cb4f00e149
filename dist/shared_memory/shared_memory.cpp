#include "dist/shared_memory/shared_memory.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "core/error.h"

namespace brigade::dist {
namespace {

/// Where the staging data begins in each rank's part: on a page of its own, away from the barrier.
constexpr std::size_t kHeaderBytes = 4096;

/// Small enough to stay in the cache between the copy in and the copy out, and large enough that a
/// few µs for two barriers do not count.
constexpr std::size_t kStagingBytes = std::size_t{1} << 20U;

/// Of a window that small buffers have in common: a mapping for each would take a system call per
/// rank and one of the 65,530 that Linux gives a process.
constexpr std::size_t kCommonWindow = std::size_t{1} << 20U;
constexpr std::size_t kAlignment = 64;  // a cache line, and what vector instructions like

template <class T>
using Parts = std::vector<T*>;  // the same tensor on each rank

template <class T>
Parts<T> parts_of(const SharedWindow& window, std::size_t offset, int ranks) {
  Parts<T> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    parts.push_back(reinterpret_cast<T*>(window.of(rank) + offset));
  }
  return parts;
}

/// `share` of every target := sum of that share over `sources`, in their order. Block by block: the
/// running total and what is added to it stay in the first-level cache, so each source is read from
/// memory once, and a source that is also a target is still in the cache when it is written.
template <class T>
void add_up(const Parts<T>& sources, const Parts<T>& targets, const Share& share) {
  constexpr std::int64_t kBlock = 2048;
  alignas(64) T total[kBlock];
  for (std::int64_t done = 0; done < share.count; done += kBlock) {
    const std::int64_t begin = share.begin + done;
    const std::int64_t count = std::min(kBlock, share.count - done);
    std::copy_n(sources[0] + begin, count, total);
    for (const T* source : std::span(sources).subspan(1)) {
      const T* theirs = source + begin;
      for (std::int64_t i = 0; i < count; ++i) {
        total[i] += theirs[i];
      }
    }
    for (T* target : targets) {
      std::copy_n(total, count, target + begin);
    }
  }
}

}  // namespace

SharedMemory::SharedMemory(Communicator& ranks, Patience patience)
    : ranks_(ranks), patience_(std::move(patience)) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  auto window = std::make_shared<const SharedWindow>(ranks, kHeaderBytes + kStagingBytes);
  staging_ = {.window = std::move(window), .number = made_++, .offset = kHeaderBytes};
  new (staging_.window->of(ranks.rank())) Header;
  ranks.barrier();  // nobody uses rank 0's barrier before it exists
}

SharedMemory::Header& SharedMemory::header(int rank) const {
  return *std::launder(reinterpret_cast<Header*>(staging_.window->of(rank)));
}

Tensor SharedMemory::make_buffer(const Shape& shape, DType dtype) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  if (bytes == 0 || bytes > kCommonWindow / 4) {
    auto window = make_window(bytes);
    std::byte* mine = window->of(ranks_.rank());
    return Tensor::over(std::move(window), mine, shape, dtype);
  }
  if (!common_ || common_used_ + bytes > kCommonWindow) {
    common_ = make_window(kCommonWindow);
    common_used_ = 0;
  }
  std::byte* mine = common_->of(ranks_.rank()) + common_used_;
  common_used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return Tensor::over(common_, mine, shape, dtype);
}

std::shared_ptr<const SharedWindow> SharedMemory::make_window(std::size_t bytes) {
  auto window = std::make_shared<const SharedWindow>(ranks_, bytes);
  const std::lock_guard lock(mutex_);
  std::erase_if(windows_, [](const auto& entry) { return entry.second.window.expired(); });
  const std::uint64_t number = made_++;
  if (const std::byte* mine = window->of(ranks_.rank())) {
    windows_[mine] = {.window = window, .number = number, .bytes = bytes};
  }
  return window;
}

std::optional<SharedMemory::Place> SharedMemory::find(const Tensor& tensor) {
  const std::byte* data = tensor.bytes();
  const std::lock_guard lock(mutex_);
  auto after = windows_.upper_bound(data);
  if (after == windows_.begin()) {
    return std::nullopt;
  }
  const auto& [start, entry] = *std::prev(after);
  // A window that is no longer mapped may have left its place to ordinary memory.
  auto window = entry.window.lock();
  if (window == nullptr || data >= start + entry.bytes) {
    return std::nullopt;
  }
  return Place{std::move(window), entry.number, static_cast<std::size_t>(data - start)};
}

/// First barrier: returns when all ranks' data is there.
void SharedMemory::meet(Operation operation, const Place& place, std::size_t bytes) {
  const Ticket mine{operation, place.number, place.offset, bytes};
  // The others have read the last ticket: that was before the last part().
  header(ranks_.rank()).ticket = mine;
  header(0).barrier.arrive(ranks_.size(), patience_);
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const Ticket& theirs = header(rank).ticket;
    BRIGADE_CHECK(theirs == mine, "shared memory: the ranks' collectives differ: rank ",
                  ranks_.rank(), " brings ", mine.bytes, " bytes at ", mine.offset, " of window ",
                  mine.window, ", rank ", rank, ' ', theirs.bytes, " at ", theirs.offset, " of ",
                  theirs.window, "; all ranks must reduce the same buckets in the same order");
  }
}

/// Second barrier: returns when all ranks are done with each other's memory.
void SharedMemory::part() {
  header(0).barrier.arrive(ranks_.size(), patience_);
}

void SharedMemory::sum_in(const Place& place, std::int64_t numel, DType dtype) {
  dispatch_float(dtype, [&]<class T>() {
    meet(Operation::sum, place, static_cast<std::size_t>(numel) * sizeof(T));
    // Nobody else touches this share, on whichever rank, so reading and writing need no order.
    const auto parts = parts_of<T>(*place.window, place.offset, ranks_.size());
    add_up<T>(parts, parts, share_of(numel, ranks_.rank(), ranks_.size()));
    part();
  });
}

void SharedMemory::sum(const Tensor& tensor) {
  if (const auto place = find(tensor)) {
    sum_in(*place, tensor.numel(), tensor.dtype());
    return;
  }
  // All ranks write into this rank's staging buffer, but only between meet() and part(), so it can
  // be filled and emptied without further barriers.
  std::byte* staging = staging_.window->of(ranks_.rank()) + staging_.offset;
  const auto piece = static_cast<std::int64_t>(kStagingBytes / size_of(tensor.dtype()));
  for (std::int64_t begin = 0; begin < tensor.numel(); begin += piece) {
    const std::int64_t count = std::min(piece, tensor.numel() - begin);
    const Tensor part = tensor.flat_view(begin, {count});
    std::memcpy(staging, part.bytes(), part.nbytes());
    sum_in(staging_, count, tensor.dtype());
    std::memcpy(part.bytes(), staging, part.nbytes());
  }
}

bool SharedMemory::reduce_scatter(const Tensor& tensor) {
  const auto place = find(tensor);
  if (place) {
    dispatch_float(tensor.dtype(), [&]<class T>() {
      meet(Operation::reduce_scatter, *place, tensor.nbytes());
      add_up<T>(parts_of<T>(*place->window, place->offset, ranks_.size()), {tensor.data<T>()},
                share_of(tensor.numel(), ranks_.rank(), ranks_.size()));
      part();
    });
  }
  return place.has_value();
}

bool SharedMemory::all_gather(const Tensor& tensor) {
  const auto place = find(tensor);
  if (place) {
    dispatch_float(tensor.dtype(), [&]<class T>() {
      meet(Operation::all_gather, *place, tensor.nbytes());
      const auto parts = parts_of<T>(*place->window, place->offset, ranks_.size());
      for (int rank = 0; rank < ranks_.size(); ++rank) {
        if (rank != ranks_.rank()) {
          const Share share = share_of(tensor.numel(), rank, ranks_.size());
          std::copy_n(parts[static_cast<std::size_t>(rank)] + share.begin, share.count,
                      tensor.data<T>() + share.begin);
        }
      }
      part();
    });
  }
  return place.has_value();
}

}  // namespace brigade::dist
