#include "dist/shared_memory/shared_memory.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"

namespace brigade::dist {
namespace {

/// Where the staging data begins in each rank's part: on a page of its own, away from the barrier.
constexpr std::size_t kHeaderBytes = 4096;

/// Small enough to stay in the cache between the copy in and the copy out. Large enough that the
/// few µs of two barriers do not matter.
constexpr std::size_t kStagingBytes = std::size_t{1} << 20U;

/// Size of a window that small buffers share. A window for each would need a mapping per rank, of
/// which Linux allows a process 65,530.
constexpr std::size_t kCommonWindow = std::size_t{1} << 20U;
constexpr std::size_t kAlignment = 64;  // a cache line

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

/// `share` of every target := sum of that share over `sources`, in their order. Works block by
/// block, so that the running total stays in the first-level cache: each source is read from memory
/// once, and a source that is also a target is still in the cache when it is written.
template <class T>
void add_up(const Parts<T>& sources, const std::type_identity_t<Parts<T>>& targets,
            const Share& share) {
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

SharedMemory::SharedMemory(Communicator& ranks, WaitPolicy policy)
    : ranks_(ranks), policy_(std::move(policy)) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  auto window = std::make_shared<const SharedWindow>(ranks, kHeaderBytes + kStagingBytes);
  staging_ = {.window = std::move(window), .number = window_count_++, .offset = kHeaderBytes};
  new (staging_.window->of(ranks.rank())) Header;
  ranks.barrier();  // no rank may use rank 0's barrier before it exists
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
  const std::uint64_t number = window_count_++;
  if (const std::byte* mine = window->of(ranks_.rank())) {
    windows_[mine] = {.window = window, .number = number, .bytes = bytes};
  }
  return window;
}

std::optional<SharedMemory::Location> SharedMemory::find(const Tensor& tensor) {
  const std::byte* data = tensor.bytes();
  const std::lock_guard lock(mutex_);
  auto after = windows_.upper_bound(data);
  if (after == windows_.begin()) {
    return std::nullopt;
  }
  const auto& [start, entry] = *std::prev(after);
  // Other memory may have the address of a window that is no longer mapped.
  auto window = entry.window.lock();
  if (window == nullptr || data >= start + entry.bytes) {
    return std::nullopt;
  }
  return Location{std::move(window), entry.number, static_cast<std::size_t>(data - start)};
}

template <class Compute>
void SharedMemory::run_collective(Operation operation, const Location& location, std::int64_t numel,
                                  DType dtype, const Compute& compute) {
  dispatch_float(dtype, [&]<class T>() {
    const Arguments mine{operation, location.number, location.offset,
                         static_cast<std::size_t>(numel) * sizeof(T)};
    // All ranks have read the previous arguments: they did before its second barrier.
    header(ranks_.rank()).arguments = mine;
    header(0).barrier.arrive(ranks_.size(), policy_);
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      const Arguments& theirs = header(rank).arguments;
      BRIGADE_CHECK(
          theirs == mine,
          "shared memory: the ranks' collectives differ: rank {} brings {} bytes at {} of window "
          "{}, rank {} {} at {} of {}; all ranks must reduce the same buckets in the same order",
          ranks_.rank(), mine.bytes, mine.offset, mine.window, rank, theirs.bytes, theirs.offset,
          theirs.window);
    }
    compute(parts_of<T>(*location.window, location.offset, ranks_.size()));
    header(0).barrier.arrive(ranks_.size(), policy_);
  });
}

void SharedMemory::sum_at(const Location& location, std::int64_t numel, DType dtype) {
  run_collective(Operation::sum, location, numel, dtype, [&](const auto& parts) {
    // No other rank reads or writes this share, in any rank's memory, so no order is needed.
    add_up(parts, parts, share_of(numel, ranks_.rank(), ranks_.size()));
  });
}

void SharedMemory::sum(const Tensor& tensor) {
  if (const auto location = find(tensor)) {
    sum_at(*location, tensor.numel(), tensor.dtype());
    return;
  }
  // Other ranks write into this rank's staging buffer only between the two barriers of sum_at(), so
  // it can be filled and emptied without further barriers.
  std::byte* staging = staging_.window->of(ranks_.rank()) + staging_.offset;
  const auto piece = static_cast<std::int64_t>(kStagingBytes / size_of(tensor.dtype()));
  for (std::int64_t begin = 0; begin < tensor.numel(); begin += piece) {
    const std::int64_t count = std::min(piece, tensor.numel() - begin);
    const Tensor part = tensor.flat_view(begin, {count});
    std::memcpy(staging, part.bytes(), part.nbytes());
    sum_at(staging_, count, tensor.dtype());
    std::memcpy(part.bytes(), staging, part.nbytes());
  }
}

bool SharedMemory::reduce_scatter(const Tensor& tensor) {
  const auto location = find(tensor);
  if (location) {
    const auto reduce = [&](const auto& parts) {
      const auto rank = static_cast<std::size_t>(ranks_.rank());
      add_up(parts, {parts[rank]}, share_of(tensor.numel(), ranks_.rank(), ranks_.size()));
    };
    run_collective(Operation::reduce_scatter, *location, tensor.numel(), tensor.dtype(), reduce);
  }
  return location.has_value();
}

bool SharedMemory::all_gather(const Tensor& tensor) {
  const auto location = find(tensor);
  if (location) {
    const auto gather = [&](const auto& parts) {
      auto* mine = parts[static_cast<std::size_t>(ranks_.rank())];
      for (int rank = 0; rank < ranks_.size(); ++rank) {
        if (rank != ranks_.rank()) {
          const Share share = share_of(tensor.numel(), rank, ranks_.size());
          std::copy_n(parts[static_cast<std::size_t>(rank)] + share.begin, share.count,
                      mine + share.begin);
        }
      }
    };
    run_collective(Operation::all_gather, *location, tensor.numel(), tensor.dtype(), gather);
  }
  return location.has_value();
}

}  // namespace brigade::dist
