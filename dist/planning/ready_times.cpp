#include "dist/planning/ready_times.h"

#include <algorithm>

#include "core/runtime/context.h"
#include "dist/planning/median.h"

namespace brigade::dist {

ReadyTimes::ReadyTimes(std::vector<autograd::Variable> parameters)
    : parameters_(std::move(parameters)) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    handles_.push_back(parameters_[i].attach_listener(*this, i));
  }
}

void ReadyTimes::on_backward_begin() {
  const Device device = parameters_.front().device();
  seen_.push_back({.begin = compute_stream(device).record(Timing::on), .ready = {}});
}

void ReadyTimes::on_grad_ready(std::size_t index) {
  Stream& stream = compute_stream(parameters_[index].device());
  seen_.back().ready.emplace_back(index, stream.record(Timing::on));
}

std::vector<GradientReady> ReadyTimes::usual_order() const {
  std::vector<std::vector<double>> times(parameters_.size());
  double last = 0.0;
  for (const Times& backward : seen_) {
    for (const auto& [index, ready] : backward.ready) {
      times[index].push_back(elapsed_ms(backward.begin, ready));
      last = std::max(last, times[index].back());
    }
  }
  std::vector<GradientReady> order;
  for (std::size_t i = 0; i < times.size(); ++i) {
    order.push_back({i, times[i].empty() ? last : median(times[i])});
  }
  std::ranges::stable_sort(order, {}, &GradientReady::ms);
  return order;
}

}  // namespace brigade::dist
