#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace brigade::dist {

/// One collective: chunk `piece` of bucket `bucket`.
struct LaunchItem {
  std::size_t bucket = 0;
  std::size_t piece = 0;
  bool operator==(const LaunchItem&) const = default;
};

/// Bucket after bucket, chunk after chunk.
inline std::vector<LaunchItem> in_bucket_order(std::span<const std::size_t> chunks_of_bucket) {
  std::vector<LaunchItem> order;
  for (std::size_t bucket = 0; bucket < chunks_of_bucket.size(); ++bucket) {
    for (std::size_t piece = 0; piece < chunks_of_bucket[bucket]; ++piece) {
      order.push_back({bucket, piece});
    }
  }
  return order;
}

}  // namespace brigade::dist
