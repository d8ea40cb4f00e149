#include "apps/plan/planned_step.h"

#include <algorithm>

#include "dist/overlap/order_of_need.h"

namespace brigade::apps {
namespace {

/// The network's and the rank's time so far.
class TimeLine {
 public:
  TimeLine(bool shares_core, double head_start)
      : shares_core_(shares_core), head_start_(head_start) {}

  double now() const { return now_; }

  /// The rank does what takes `work` ms alone on its core.
  void compute(double work) {
    while (work > 0.0 && next_ < sent_.size()) {
      const Sent& message = sent_[next_];
      if (message.begin > now_) {
        const double free = std::min(work, message.begin - now_);
        now_ += free;
        work -= free;
        continue;
      }
      const double beside = message.speed * std::max(message.end - now_, 0.0);
      if (work < beside) {
        now_ += work / message.speed;
        return;
      }
      work -= beside;
      now_ = std::max(now_, message.end);
      ++next_;
    }
    now_ += std::max(work, 0.0);
  }

  /// Begins when those before have ended. Returns when it will end.
  double send(const CollectiveCost& cost) {
    const double begin = std::max(now_, network_free_);
    saved_up_ = std::min(saved_up_ + begin - network_free_, head_start_);
    const double saved = std::min(saved_up_, std::max(cost.ms - cost.latency_ms, 0.0));
    saved_up_ -= saved;
    const double ms = cost.ms - saved;
    network_free_ = begin + ms;
    const double taken = shares_core_ && ms > 0.0 ? std::min(cost.cpu_ms / ms, 1.0) : 0.0;
    sent_.push_back({begin, network_free_, 1.0 - taken});
    return network_free_;
  }

  void wait_until(double end) { now_ = std::max(now_, end); }
  void wait_for_all() { wait_until(network_free_); }

 private:
  struct Sent {
    double begin = 0.0;
    double end = 0.0;
    double speed = 1.0;  // of computation beside it
  };

  bool shares_core_;
  double head_start_;
  double saved_up_ = 0.0;
  double now_ = 0.0;
  double network_free_ = 0.0;
  std::vector<Sent> sent_;
  std::size_t next_ = 0;  // the first that computation has not passed
};

class Player {
 public:
  Player(const ComputeTimes& times, std::span<const PlannedBucket> buckets,
         const Schedule& schedule)
      : times_(times),
        buckets_(buckets),
        schedule_(schedule),
        line_(schedule.shares_core, schedule.head_start) {
    bucket_of_.resize(times.order.size());
    arrival_.resize(buckets.size());
    std::vector<double> ready(times.order.size());
    for (const dist::GradientReady& gradient : times.order) {
      ready[gradient.parameter] = gradient.ms;
    }
    std::vector<dist::BucketTimes> needs;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      dist::BucketTimes& bucket = needs.emplace_back();
      bucket.first_parameter = std::ranges::min(buckets[b].members);
      for (const std::size_t member : buckets[b].members) {
        bucket_of_[member] = b;
        bucket.ready_ms = std::max(bucket.ready_ms, ready[member]);
      }
      for (std::size_t chunk = 0; chunk < buckets[b].chunks.size(); ++chunk) {
        bucket.chunk_ms.push_back(buckets[b].chunks[chunk].ms);
        launches_.push_back({b, chunk});
      }
    }
    if (schedule.cross_step && schedule.overlap) {
      launches_ = dist::in_order_of_need(needs);
    }
    // Forward reads a layer's weights about where backward, going the other way, is done with them.
    for (const double ms : ready) {
      const double at = ms < times.backward ? times.forward * (1.0 - ms / times.backward) : 0.0;
      needed_.push_back(std::max(at, needed_.empty() ? 0.0 : needed_.back()));
    }
  }

  void step() {
    for (std::size_t micro = 0; micro < schedule_.accum; ++micro) {
      forward((schedule_.cross_step || schedule_.sharded) && micro == 0);
      const bool last = micro + 1 == schedule_.accum;
      if (!schedule_.defer_sync || last) {
        synchronised_backward();
      } else {
        line_.compute(times_.backward);
      }
    }
    if (!schedule_.cross_step) {
      line_.compute(times_.optimizer);
    }
    if (schedule_.sharded) {
      gather();
    }
  }

  double now() const { return line_.now(); }

 private:
  /// A layer waits for its weights, whose update with cross_step costs its part of the optimizer.
  void forward(bool waits) {
    double done = 0.0;
    std::vector<bool> updated(buckets_.size(), !waits);
    for (std::size_t parameter = 0; parameter < needed_.size(); ++parameter) {
      const std::size_t bucket = bucket_of_[parameter];
      if (!updated[bucket]) {
        line_.compute(needed_[parameter] - done);
        done = needed_[parameter];
        line_.wait_until(arrival_[bucket]);
        if (schedule_.cross_step) {
          line_.compute(times_.optimizer * static_cast<double>(buckets_[bucket].members.size()) /
                        static_cast<double>(needed_.size()));
        }
        updated[bucket] = true;
      }
    }
    line_.compute(times_.forward - done);
  }

  void gather() {
    for (std::size_t b = buckets_.size(); b-- > 0;) {
      for (const CollectiveCost& chunk : buckets_[b].chunks) {
        arrival_[b] = line_.send(chunk);
      }
    }
  }

  void synchronised_backward() {
    std::vector<std::size_t> missing;
    for (const PlannedBucket& bucket : buckets_) {
      missing.push_back(bucket.members.size());
    }
    double done = 0.0;
    auto next = launches_.begin();
    for (const dist::GradientReady& gradient : times_.order) {
      line_.compute(gradient.ms - done);
      done = std::max(done, gradient.ms);
      --missing[bucket_of_[gradient.parameter]];
      while (schedule_.overlap && next != launches_.end() && missing[next->bucket] == 0) {
        launch(*next++);
      }
    }
    line_.compute(times_.backward - done);
    while (next != launches_.end()) {  // without overlap all of them
      launch(*next++);
      if (schedule_.one_by_one) {
        line_.wait_for_all();
      }
    }
    if (!schedule_.cross_step) {
      line_.wait_for_all();
    }
  }

  void launch(const dist::LaunchItem& item) {
    arrival_[item.bucket] = line_.send(buckets_[item.bucket].chunks[item.chunk]);
  }

  const ComputeTimes& times_;
  std::span<const PlannedBucket> buckets_;
  Schedule schedule_;
  TimeLine line_;
  std::vector<dist::LaunchItem> launches_;
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<double> needed_;          // by parameter, ms after the beginning of forward
  std::vector<double> arrival_;         // by bucket, of its last chunk
};

}  // namespace

double planned_step(const ComputeTimes& compute, std::span<const PlannedBucket> buckets,
                    const Schedule& schedule) {
  constexpr int kSteps = 6;
  Player player(compute, buckets, schedule);
  for (int i = 1; i < kSteps; ++i) {
    player.step();
  }
  const double before = player.now();
  player.step();
  return player.now() - before;
}

}  // namespace brigade::apps
