#include "dist/overlap/order_of_need.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace brigade::dist {

std::vector<LaunchItem> in_order_of_need(std::span<const BucketTimes> buckets) {
  std::vector<std::size_t> coming(buckets.size());  // in the order in which they become ready
  std::iota(coming.begin(), coming.end(), std::size_t{0});
  std::ranges::stable_sort(coming, {}, [&](std::size_t i) { return buckets[i].ready_ms; });

  using Need = std::pair<std::size_t, std::size_t>;                    // (first parameter, bucket)
  std::priority_queue<Need, std::vector<Need>, std::greater<>> ready;  // the most urgent on top
  std::vector<std::size_t> sent(buckets.size(), 0);  // chunks of each bucket that were launched
  std::vector<LaunchItem> order;
  double now = 0.0;  // the network is free
  auto next_ready = coming.begin();
  while (next_ready != coming.end() || !ready.empty()) {
    if (ready.empty()) {
      now = std::max(now, buckets[*next_ready].ready_ms);
    }
    for (; next_ready != coming.end() && buckets[*next_ready].ready_ms <= now; ++next_ready) {
      ready.emplace(buckets[*next_ready].first_parameter, *next_ready);
    }
    const std::size_t next = ready.top().second;
    order.push_back({next, sent[next]});
    now += buckets[next].chunk_ms[sent[next]];
    if (++sent[next] == buckets[next].chunk_ms.size()) {
      ready.pop();
    }
  }
  return order;
}

}  // namespace brigade::dist
