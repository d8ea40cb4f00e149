#include "dist/send_order.h"

#include <algorithm>
#include <limits>

namespace brigade::dist {

std::vector<Send> in_bucket_order(std::span<const std::size_t> pieces_of_bucket) {
  std::vector<Send> order;
  for (std::size_t bucket = 0; bucket < pieces_of_bucket.size(); ++bucket) {
    for (std::size_t piece = 0; piece < pieces_of_bucket[bucket]; ++piece) {
      order.push_back({bucket, piece});
    }
  }
  return order;
}

std::vector<Send> in_order_of_need(std::span<const BucketTimes> buckets) {
  std::vector<std::size_t> sent(buckets.size(), 0);  // pieces of each bucket that have left
  std::size_t left = 0;
  for (const BucketTimes& bucket : buckets) {
    left += bucket.piece_ms.size();
  }

  std::vector<Send> order;
  double now = 0.0;  // the network is free
  while (left > 0) {
    constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
    std::size_t next = kNone;
    double earliest = std::numeric_limits<double>::infinity();
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      if (sent[b] == buckets[b].piece_ms.size()) {
        continue;
      }
      earliest = std::min(earliest, buckets[b].ready_ms);
      const bool ready = buckets[b].ready_ms <= now;
      if (ready && (next == kNone || buckets[b].first_parameter < buckets[next].first_parameter)) {
        next = b;
      }
    }
    if (next == kNone) {
      now = earliest;
      continue;
    }
    order.push_back({next, sent[next]});
    now += buckets[next].piece_ms[sent[next]];
    ++sent[next];
    --left;
  }
  return order;
}

}  // namespace brigade::dist
