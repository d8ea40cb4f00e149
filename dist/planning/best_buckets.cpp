#include "dist/planning/best_buckets.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace brigade::dist {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// The best plans of some number of buckets, one for each beginning of the gradients.
struct Stage {
  explicit Stage(std::size_t gradients)
      : arrival(gradients + 1, kNever), last_cut(gradients + 1, 0) {}
  std::vector<double> arrival;        // of the first j gradients
  std::vector<std::size_t> last_cut;  // how many of them lie before the last bucket
};

/// What is known of the first j gradients without them.
Stage none_sent(std::size_t gradients) {
  Stage stage(gradients);
  stage.arrival[0] = 0.0;
  return stage;
}

struct Problem {
  std::span<const PlanParameter> parameters;
  std::span<const GradientReady> order;
  const AllReduceMs& all_reduce_ms;

  /// Tries every place for the last cut before gradient number `end`. A bucket has one dtype.
  void cut_before(std::size_t end, const std::vector<double>& before, Stage& stage) const {
    std::size_t bytes = 0;
    for (std::size_t begin = end; begin-- > 0;) {
      const PlanParameter& first = parameters[order[begin].parameter];
      if (first.dtype != parameters[order[end - 1].parameter].dtype) {
        return;
      }
      bytes += first.bytes;
      const double arrival = std::max(order[end - 1].ms, before[begin]) + all_reduce_ms(bytes);
      if (arrival < stage.arrival[end]) {
        stage.arrival[end] = arrival;
        stage.last_cut[end] = begin;
      }
    }
  }
};

}  // namespace

double last_arrival_ms(std::span<const PlanParameter> parameters,
                       std::span<const GradientReady> order, const BucketPlan& plan,
                       const AllReduceMs& all_reduce_ms) {
  std::vector<double> ready(parameters.size(), 0.0);
  for (const GradientReady& gradient : order) {
    ready[gradient.parameter] = gradient.ms;
  }
  double end = 0.0;
  for (const std::vector<std::size_t>& members : plan) {
    std::size_t bytes = 0;
    for (const std::size_t member : members) {
      end = std::max(end, ready[member]);
      bytes += parameters[member].bytes;
    }
    end += all_reduce_ms(bytes);
  }
  return end;
}

BucketPlan best_buckets(std::span<const PlanParameter> parameters,
                        std::span<const GradientReady> order, const AllReduceMs& all_reduce_ms,
                        double tolerance) {
  if (order.empty()) {
    return {};
  }
  const Problem problem{parameters, order, all_reduce_ms};
  Stage any = none_sent(order.size());  // any number of buckets
  for (std::size_t end = 1; end <= order.size(); ++end) {
    problem.cut_before(end, any.arrival, any);
  }
  std::vector<Stage> stages{none_sent(order.size())};  // by number of buckets
  while (!(stages.back().arrival.back() <= any.arrival.back() * (1.0 + tolerance))) {
    Stage next(order.size());
    for (std::size_t end = 1; end <= order.size(); ++end) {
      problem.cut_before(end, stages.back().arrival, next);
    }
    stages.push_back(std::move(next));
  }
  BucketPlan plan(stages.size() - 1);
  std::size_t end = order.size();
  for (std::size_t bucket = plan.size(); bucket-- > 0;) {
    const std::size_t begin = stages[bucket + 1].last_cut[end];
    for (std::size_t i = begin; i < end; ++i) {
      plan[bucket].push_back(order[i].parameter);
    }
    end = begin;
  }
  return plan;
}

}  // namespace brigade::dist
