#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "autograd/hooks.h"
#include "autograd/variable.h"
#include "core/runtime/stream.h"
#include "dist/planning/best_buckets.h"

namespace brigade::dist {

/// Notes when each gradient is ready, backward by backward, on the device's own clock.
class ReadyTimes final : private autograd::GradListener {
 public:
  explicit ReadyTimes(std::vector<autograd::Variable> parameters);
  ReadyTimes(const ReadyTimes&) = delete;
  ReadyTimes& operator=(const ReadyTimes&) = delete;

  bool watching() const { return !handles_.empty(); }
  /// Keeps what there is, and notes no more.
  void stop() { handles_.clear(); }
  void forget() { seen_.clear(); }
  std::size_t backwards() const { return seen_.size(); }

  /// The parameters in the order of the medians. One that backward does not reach comes last. The
  /// compute stream must have executed the backwards.
  std::vector<GradientReady> usual_order() const;

 private:
  /// One backward.
  struct Times {
    Event begin;
    std::vector<std::pair<std::size_t, Event>> ready;  // parameters, as they came
  };

  void on_backward_begin() override;
  void on_grad_ready(std::size_t index) override;
  void on_backward_abort() noexcept override { seen_.clear(); }

  std::vector<autograd::Variable> parameters_;
  std::vector<autograd::ListenerHandle> handles_;  // none: not watching
  std::vector<Times> seen_;
};

}  // namespace brigade::dist
