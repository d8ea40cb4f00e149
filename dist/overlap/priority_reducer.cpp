#include "dist/overlap/priority_reducer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/runtime/context.h"
#include "dist/comm/gather.h"
#include "dist/planning/median.h"

namespace brigade::dist {
namespace {

constexpr std::size_t kUnobserved = 1;
constexpr std::size_t kObserved = 3;

Event now_on_compute_stream(const Bucket& bucket) {
  return compute_stream(bucket.grads.device()).record(Timing::on);
}

}  // namespace

// Equal chunks rather than full ones and a rest: a small last collective costs a latency and
// carries nothing.
std::vector<Chunk> split(const Bucket& bucket, std::size_t chunk_bytes) {
  const std::size_t units = bucket.grads.nbytes() / kSliceAlignment;
  const std::size_t most = std::max(chunk_bytes / kSliceAlignment, std::size_t{1});
  const std::size_t count = (units + most - 1) / most;
  if (count <= 1) {
    return {{.grads = bucket.grads, .label = bucket.label}};
  }
  const std::size_t per_unit = kSliceAlignment / size_of(bucket.grads.dtype());
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = static_cast<std::int64_t>(units * i / count * per_unit);
    const auto end = static_cast<std::int64_t>(units * (i + 1) / count * per_unit);
    chunks.push_back({.grads = bucket.grads.flat_view(begin, {end - begin}),
                      .label = fmt::format("{}[{}/{}]", bucket.label, i + 1, count)});
  }
  return chunks;
}

PriorityReducer::PriorityReducer(SyncContext context, std::size_t chunk_bytes) : Reducer(context) {
  if (context.hook.name() != PlainAllReduce().name()) {
    chunk_bytes = std::numeric_limits<std::size_t>::max();
  }
  for (std::size_t bucket = 0; bucket < context.buckets.size(); ++bucket) {
    chunks_.push_back(split(context.buckets[bucket], chunk_bytes));
    for (std::size_t chunk = 0; chunk < chunks_.back().size(); ++chunk) {
      order_.push_back({.bucket = bucket, .chunk = chunk});
    }
  }
}

bool PriorityReducer::observing() const {
  return backwards_ >= kUnobserved && backwards_ < kUnobserved + kObserved;
}

void PriorityReducer::launch_full_buckets() {
  for (; next_ < order_.size() && full(order_[next_].bucket); ++next_) {
    const auto [index, chunk] = order_[next_];
    const Bucket& bucket = context_.buckets[index];
    const auto& [grads, label] = chunks_[index][chunk];
    const Event ready = observing() ? now_on_compute_stream(bucket) : Event();
    const Work work = context_.hook.all_reduce(index, grads, label, context_.comm);
    if (chunk + 1 < chunks_[index].size()) {
      continue;
    }
    // The communicator executes collectives one after the other, so the last chunk's Work stands
    // for the bucket, and rethrows what any of them threw (core/runtime/stream.h).
    context_.completion.launched(bucket, work);
    if (observing()) {
      observations_.resize(backwards_ - kUnobserved + 1);
      observations_.back().ready.push_back(ready);
      observations_.back().reduced.push_back(work.done_event());
    }
  }
}

void PriorityReducer::on_backward_end() {
  Reducer::on_backward_end();
  next_ = 0;
  if (++backwards_ == kUnobserved + kObserved) {
    order_ = broadcast_from_rank0(context_.comm, order_of_need());
    observations_.clear();
  }
}

void PriorityReducer::on_backward_abort() noexcept {
  Reducer::on_backward_abort();
  next_ = 0;
  if (observing()) {  // forgets the backward that failed
    observations_.resize(backwards_ - kUnobserved);
  }
}

// The observed backwards launched in bucket order: the network was busy with bucket b from the
// moment when b was ready and b - 1 had arrived until b had arrived.
std::vector<LaunchItem> PriorityReducer::order_of_need() const {
  const std::size_t count = context_.buckets.size();
  std::vector<std::vector<double>> ready(count);
  std::vector<double> ms_per_byte;
  for (const Observation& seen : observations_) {
    double free_at = 0.0;
    double busy = 0.0;
    std::size_t bytes = 0;
    for (std::size_t b = 0; b < count; ++b) {
      seen.reduced[b].synchronize();
      ready[b].push_back(elapsed_ms(seen.ready[0], seen.ready[b]));
      const double reduced_at = elapsed_ms(seen.ready[0], seen.reduced[b]);
      busy += reduced_at - std::max(ready[b].back(), free_at);
      free_at = reduced_at;
      bytes += context_.buckets[b].grads.nbytes();
    }
    ms_per_byte.push_back(busy / static_cast<double>(bytes));
  }

  const double rate = median(std::move(ms_per_byte));
  std::vector<BucketTimes> times;
  for (std::size_t b = 0; b < count; ++b) {
    BucketTimes one{.ready_ms = median(std::move(ready[b])),
                    .first_parameter = std::ranges::min(context_.buckets[b].members)};
    for (const Chunk& chunk : chunks_[b]) {
      one.chunk_ms.push_back(rate * static_cast<double>(chunk.grads.nbytes()));
    }
    times.push_back(std::move(one));
  }
  return in_order_of_need(times);
}

}  // namespace brigade::dist
