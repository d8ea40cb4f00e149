#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "autograd/hooks.h"
#include "core/runtime/stream.h"
#include "dist/ddp/grad_averager.h"
#include "dist/planning/best_buckets.h"

namespace brigade::dist {

/// What a BucketTuner has found out. Times are in ms after the beginning of backward.
struct BucketChoice {
  bool changed = false;      ///< else the buckets that there were are as good
  double backward_ms = 0.0;  ///< when the last gradient is ready
  double before_ms = 0.0;    ///< when the last bucket was expected to arrive
  double now_ms = 0.0;       ///< when it is now
};

/// Chooses the buckets by measurement (--bucket-mb auto): notes when each gradient is ready in a
/// few backwards, measures the network, and takes the best plan for both (best_buckets.h). Rank 0
/// decides for all. Afterwards it does nothing.
class BucketTuner final : private autograd::GradListener {
 public:
  /// The averager must outlive it. It must launch plain all-reduces during backward: other modes
  /// and hooks need other times.
  explicit BucketTuner(GradAverager& averager);

  /// To be called after each step; collective. In the fifth, or later if rank 0 had no samples:
  /// moves the parameters into the buckets that were chosen, and says so.
  std::optional<BucketChoice> after_step();

 private:
  /// One backward.
  struct Times {
    Event begin;
    std::vector<std::pair<std::size_t, Event>> ready;  // parameters, as they came
  };

  void on_backward_begin() override;
  void on_grad_ready(std::size_t index) override;
  void on_backward_abort() noexcept override { seen_.clear(); }

  std::vector<GradientReady> usual_order() const;
  BucketChoice choose();

  GradAverager& averager_;
  std::vector<autograd::HookHandle> handles_;  // none: it has chosen
  std::vector<Times> seen_;
  int steps_ = 0;
};

}  // namespace brigade::dist
