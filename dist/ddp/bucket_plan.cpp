#include "dist/ddp/bucket_plan.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace brigade::dist {
namespace {

/// "4" of "4.weight"; empty if the name has no '.'.
std::string_view layer_of(const PlanParameter& parameter) {
  const std::size_t dot = parameter.name.rfind('.');
  return std::string_view(parameter.name).substr(0, dot == std::string::npos ? 0 : dot);
}

}  // namespace

std::vector<std::size_t> expected_order(std::span<const PlanParameter> parameters) {
  std::vector<std::size_t> order;
  for (std::size_t end = parameters.size(); end > 0;) {
    std::size_t begin = end - 1;  // of the layer that ends here
    const std::string_view layer = layer_of(parameters[begin]);
    while (begin > 0 && !layer.empty() && layer_of(parameters[begin - 1]) == layer) {
      --begin;
    }
    for (std::size_t i = begin; i < end; ++i) {
      order.push_back(i);
    }
    end = begin;
  }
  return order;
}

BucketPlan assign_buckets(std::span<const PlanParameter> parameters,
                          std::span<const std::size_t> order, std::size_t cap_bytes) {
  struct OpenBucket {
    std::size_t index = 0;
    std::size_t bytes = 0;
  };
  std::map<DType, OpenBucket> open_of;
  BucketPlan plan;
  std::vector<std::size_t> place(order.size());  // parameter -> where it is in `order`
  for (std::size_t at = 0; at < order.size(); ++at) {
    const PlanParameter& parameter = parameters[order[at]];
    place[order[at]] = at;
    const auto [entry, fresh] = open_of.try_emplace(parameter.dtype);
    OpenBucket& open = entry->second;
    if (fresh || open.bytes + parameter.bytes > cap_bytes) {
      open = {.index = plan.size(), .bytes = 0};
      plan.emplace_back();
    }
    plan[open.index].push_back(order[at]);
    open.bytes += parameter.bytes;
  }
  std::ranges::sort(plan, {}, [&place](const auto& members) { return place[members.back()]; });
  return plan;
}

BucketPlan assign_buckets(std::span<const std::size_t> parameter_bytes, std::size_t cap_bytes) {
  std::vector<PlanParameter> parameters;
  for (const std::size_t bytes : parameter_bytes) {
    parameters.push_back({.bytes = bytes});
  }
  return assign_buckets(parameters, expected_order(parameters), cap_bytes);
}

bool same_buckets(BucketPlan a, BucketPlan b) {
  for (BucketPlan* plan : {&a, &b}) {
    for (std::vector<std::size_t>& members : *plan) {
      std::ranges::sort(members);
    }
  }
  return a == b;
}

}  // namespace brigade::dist
