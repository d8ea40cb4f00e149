#include "dist/ddp/bucket_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace brigade::dist {
namespace {

/// Walks parameters and keeps one bucket per dtype open.
class CapFiller {
 public:
  CapFiller(std::span<const PlanParameter> parameters, BucketPlan& plan)
      : parameters_(parameters), plan_(plan) {}

  /// `first_cap` is the cap of the very first bucket of the plan.
  void fill(std::span<const std::size_t> order, std::size_t cap, std::size_t first_cap) {
    open_.clear();
    for (const std::size_t i : order) {
      const PlanParameter& parameter = parameters_[i];
      const auto [open, fresh] = open_.try_emplace(parameter.dtype);
      const std::size_t limit = open->second.bucket == 0 ? first_cap : cap;
      // Close before, not after: a bucket is never larger than its cap because of its last member.
      if (fresh || open->second.bytes + parameter.bytes > limit) {
        open->second = {.bucket = plan_.size(), .bytes = 0};
        plan_.emplace_back();
      }
      plan_[open->second.bucket].push_back(i);
      open->second.bytes += parameter.bytes;
    }
  }

 private:
  struct OpenBucket {
    std::size_t bucket = 0;
    std::size_t bytes = 0;
  };
  std::span<const PlanParameter> parameters_;
  BucketPlan& plan_;
  std::map<DType, OpenBucket> open_;
};

/// How many parameters at the end of `order` are the last bucket.
std::size_t tail_length(std::span<const PlanParameter> parameters,
                        std::span<const std::size_t> order, std::size_t cap) {
  std::size_t length = 0;
  std::size_t bytes = 0;
  while (length < order.size()) {
    bytes += parameters[order[order.size() - 1 - length]].bytes;
    // At least one, even if it is too large: the last tensor is the last bucket, alone.
    if (bytes > cap && length > 0) {
      break;
    }
    ++length;
  }
  return length;
}

BucketPlan by_size(std::span<const PlanParameter> parameters, std::span<const std::size_t> order,
                   const BucketPolicy& policy) {
  BucketPlan plan;
  CapFiller filler(parameters, plan);
  const std::size_t tail =
      policy.last_cap_bytes ? tail_length(parameters, order, *policy.last_cap_bytes) : 0;
  filler.fill(order.first(order.size() - tail), policy.cap_bytes,
              policy.first_cap_bytes.value_or(policy.cap_bytes));
  const std::size_t last_cap = policy.last_cap_bytes.value_or(policy.cap_bytes);
  filler.fill(order.last(tail), last_cap, last_cap);
  return plan;
}

/// One bucket per layer and dtype.
BucketPlan by_layer(std::span<const PlanParameter> parameters, std::span<const std::size_t> order) {
  std::map<std::pair<std::size_t, DType>, std::size_t> bucket_of;
  BucketPlan plan;
  for (const std::size_t i : order) {
    const auto [bucket, fresh] =
        bucket_of.try_emplace({parameters[i].layer, parameters[i].dtype}, plan.size());
    if (fresh) {
      plan.emplace_back();
    }
    plan[bucket->second].push_back(i);
  }
  return plan;
}

}  // namespace

std::string to_string(const BucketPolicy& policy) {
  if (policy.by == BucketBy::layer) {
    return "layer";
  }
  const auto cap = [](const char* name, const std::optional<std::size_t>& bytes) {
    return bytes ? message_of(", ", name, " ", *bytes) : std::string();
  };
  return message_of("size, at most ", policy.cap_bytes, " bytes",
                    cap("first", policy.first_cap_bytes), cap("last", policy.last_cap_bytes));
}

std::vector<std::size_t> expected_order(std::span<const PlanParameter> parameters) {
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [parameters](std::size_t a, std::size_t b) {
    return parameters[a].layer > parameters[b].layer;
  });
  return order;
}

BucketPlan assign_buckets(std::span<const PlanParameter> parameters,
                          std::span<const std::size_t> order, const BucketPolicy& policy) {
  std::vector<std::size_t> place(parameters.size(), order.size());
  for (std::size_t at = 0; at < order.size(); ++at) {
    BRIGADE_CHECK(order[at] < place.size() && place[order[at]] == order.size(),
                  "buckets: expected every parameter number below ", place.size(),
                  " once in the order, got ", order[at], " again or beyond");
    place[order[at]] = at;
  }
  BRIGADE_CHECK(order.size() == parameters.size(), "buckets: expected an order of ",
                parameters.size(), " parameters, got ", order.size());
  BucketPlan plan = policy.by == BucketBy::layer ? by_layer(parameters, order)
                                                 : by_size(parameters, order, policy);
  std::sort(plan.begin(), plan.end(),
            [&place](const auto& a, const auto& b) { return place[a.back()] < place[b.back()]; });
  return plan;
}

BucketPlan assign_buckets(std::span<const std::size_t> parameter_bytes, std::size_t cap_bytes) {
  std::vector<PlanParameter> parameters;
  for (const std::size_t bytes : parameter_bytes) {
    parameters.push_back({.bytes = bytes, .layer = parameters.size()});
  }
  return assign_buckets(parameters, expected_order(parameters), {.cap_bytes = cap_bytes});
}

bool same_buckets(BucketPlan a, BucketPlan b) {
  for (BucketPlan* plan : {&a, &b}) {
    for (std::vector<std::size_t>& members : *plan) {
      std::sort(members.begin(), members.end());
    }
  }
  return a == b;
}

}  // namespace brigade::dist
