#include "dist/overlap/priority_order.h"

#include <algorithm>
#include <utility>

#include "core/runtime/context.h"

namespace brigade::dist {
namespace {

constexpr int kUnwatched = 2;
constexpr int kWatched = 3;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Stream& PriorityOrder::compute() const {
  return compute_stream(buckets_.front().grads.device());
}

void PriorityOrder::backward_begins() {
  if (!planned_ && seen_.size() == kWatched) {
    order_ = broadcast_from_rank0(comm_, plan());
    planned_ = true;
    seen_.clear();
    comm_.set_event_times(false);
  }
  if (!planned_ && !buckets_.empty() && backwards_ >= kUnwatched) {
    comm_.set_event_times(true);
    seen_.push_back({.begin = compute().record(Timing::on),
                     .ready = std::vector<Event>(buckets_.size()),
                     .reduced = std::vector<Event>(buckets_.size())});
    watching_ = true;
  }
  next_->backward_begins();
}

void PriorityOrder::launched(std::size_t index, const Bucket& bucket, const Work& work) {
  if (watching_) {
    seen_.back().ready[index] = compute().record(Timing::on);
    seen_.back().reduced[index] = work.done();
  }
  next_->launched(index, bucket, work);
}

void PriorityOrder::backward_ended() {
  ++backwards_;
  watching_ = false;
  next_->backward_ended();
}

void PriorityOrder::reset() noexcept {
  if (std::exchange(watching_, false)) {  // else the one that failed was inside no_sync()
    seen_.pop_back();
  }
  next_->reset();
}

void PriorityOrder::buckets_changed() {
  backwards_ = std::min(backwards_, 1);
  planned_ = false;
  seen_.clear();
  next_->buckets_changed();
}

// While it was watched buckets left in bucket order, one after the other: the network was busy with
// bucket b from the moment when b was ready and b - 1 had arrived until b had arrived.
std::vector<LaunchItem> PriorityOrder::plan() const {
  const std::size_t count = buckets_.size();
  std::vector<std::vector<double>> ready(count);
  std::vector<double> ms_per_byte;
  for (const Seen& seen : seen_) {
    double free_at = 0.0;
    double busy = 0.0;
    std::size_t bytes = 0;
    for (std::size_t b = 0; b < count; ++b) {
      seen.reduced[b].synchronize();
      const double ready_at = elapsed_ms(seen.begin, seen.ready[b]);
      const double reduced_at = elapsed_ms(seen.begin, seen.reduced[b]);
      busy += reduced_at - std::max(ready_at, free_at);
      free_at = reduced_at;
      bytes += buckets_[b].grads.nbytes();
      ready[b].push_back(ready_at);
    }
    ms_per_byte.push_back(busy / static_cast<double>(bytes));
  }

  const double rate = median(std::move(ms_per_byte));
  std::vector<BucketTimes> times;
  for (std::size_t b = 0; b < count; ++b) {
    const Bucket& bucket = buckets_[b];
    BucketTimes one{
        .ready_ms = median(std::move(ready[b])),
        .first_parameter = *std::min_element(bucket.members.begin(), bucket.members.end())};
    for (const Chunk& piece : bucket.pieces) {
      one.piece_ms.push_back(rate * static_cast<double>(piece.grads.nbytes()));
    }
    times.push_back(std::move(one));
  }
  return in_order_of_need(times);
}

}  // namespace brigade::dist
