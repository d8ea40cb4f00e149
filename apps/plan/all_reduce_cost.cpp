#include "apps/plan/all_reduce_cost.h"

#include <algorithm>
#include <cmath>

#include "dist/algorithms/segments.h"

namespace brigade::apps {
namespace {

CollectiveCost operator*(double times, const CollectiveCost& cost) {
  return {times * cost.ms, times * cost.cpu_ms};
}
CollectiveCost operator+(const CollectiveCost& a, const CollectiveCost& b) {
  return {a.ms + b.ms, a.cpu_ms + b.cpu_ms};
}

CollectiveCost slower(const CollectiveCost& a, const CollectiveCost& b) {
  return a.ms < b.ms ? b : a;
}

CollectiveCost ring(const MessageCost& message, int ranks, double bytes) {
  return 2.0 * (ranks - 1) * message(bytes / ranks);
}

/// A parent receives from two children over one link. The segments of segments.h. The depth is that
/// of a heap.
CollectiveCost tree(const MessageCost& message, int ranks, double bytes) {
  constexpr auto kSegment = static_cast<double>(dist::kSegmentBytes);
  const double segments = std::max(1.0, std::ceil(bytes / kSegment));
  const double children = std::min(ranks - 1, 2);
  return 2.0 * (std::floor(std::log2(ranks)) + segments - 1.0) *
         message(children * bytes / segments);
}

CollectiveCost halving(const MessageCost& message, int ranks, double bytes) {
  CollectiveCost sum;
  double half = bytes / 2.0;
  int together = 1;
  for (; 2 * together <= ranks; together *= 2, half /= 2.0) {
    sum = sum + 2.0 * message(half);
  }
  return together < ranks ? sum + 2.0 * message(bytes) : sum;
}

}  // namespace

MessageCost message_cost(const dist::LinkModel& link) {
  return [link](double bytes) {
    return CollectiveCost{.ms = 1e-3 * link.alpha_us + 1e-6 * bytes / link.gigabytes_per_s};
  };
}

MessageCost message_cost(dist::LinkTimes all_reduces, int ranks) {
  return [all_reduces = std::move(all_reduces), ranks](double bytes) {
    return 0.5 / (ranks - 1) *
           CollectiveCost{all_reduces.ms(ranks * bytes), all_reduces.cpu_ms(ranks * bytes)};
  };
}

const std::vector<std::string>& costed_algorithms() {
  static const std::vector<std::string> names{"ring", "halving", "tree", "hierarchical"};
  return names;
}

CollectiveCost all_reduce_cost(const Cluster& cluster, const std::string& algorithm, int ranks,
                               double bytes) {
  if (ranks == 1) {
    return {};
  }
  const auto inside = static_cast<int>(std::min<std::int64_t>(cluster.ranks_per_host, ranks));
  const int hosts = (ranks + inside - 1) / inside;
  const MessageCost anywhere = [&](double size) {
    if (hosts == 1) {
      return cluster.inside_host(size);
    }
    const CollectiveCost across = cluster.between_hosts(size);
    return inside == 1 ? across : slower(across, cluster.inside_host(size));
  };
  if (algorithm == "ring") {
    return ring(anywhere, ranks, bytes);
  }
  if (algorithm == "halving") {
    return halving(anywhere, ranks, bytes);
  }
  if (algorithm == "tree") {
    return tree(anywhere, ranks, bytes);
  }
  const CollectiveCost local =
      inside > 1 ? ring(cluster.inside_host, inside, bytes) : CollectiveCost{};
  return hosts > 1 ? local + ring(cluster.between_hosts, hosts, bytes) : local;
}

}  // namespace brigade::apps
