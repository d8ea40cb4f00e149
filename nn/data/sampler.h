#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace brigade::data {

/// How one global batch is cut: `accum` micro-batches, each divided among `ranks` ranks, `batch`
/// samples per piece.
struct BatchGeometry {
  std::int64_t batch = 1;
  std::int64_t accum = 1;
  int ranks = 1;
  int rank = 0;
  /// Samples from one step to the next; 0: a global batch. After ranks were lost
  /// (dist/elastic/) that stays what it was, so that a step's number still tells its samples: the
  /// last ones of each step are left out, or there are more micro-batches than would fit exactly.
  std::int64_t stride = 0;

  std::int64_t step_stride() const { return stride > 0 ? stride : batch * accum * ranks; }
  std::int64_t global_batch() const { return std::min(batch * accum * ranks, step_stride()); }
};

/// What to do with the samples at the end of an epoch that do not fill a global batch.
enum class Uneven {
  /// All are used, once. The last batch is smaller and its parts may differ by a sample or be
  /// empty: weight them by their samples, and let a rank without any mirror the others' backward.
  join,
  /// They are left out; other ones in the next epoch, if it shuffles.
  drop,
  /// The last global batch is filled up from the beginning of the permutation: these samples count
  /// twice in the epoch. (torch's DistributedSampler only fills up to a multiple of the ranks.)
  pad
};
Uneven parse_uneven(std::string_view name);

/// Deals the samples of a data set to the ranks so that a run's mathematics does not depend on
/// their number.
///
/// The order is one permutation per (seed, epoch), the same on every rank (file order without
/// shuffle). Step s takes positions [s G, (s+1) G) of it, G the global batch; micro-batch k takes
/// the k-th of `accum` equal parts and each rank its contiguous slice of that. With join, the last,
/// smaller global batch is cut the same way into parts that differ by at most one sample and may be
/// empty: shards are always disjoint and their union is the whole data set.
class DistributedSampler {
 public:
  /// UsageError: drop would leave nothing, because all samples together do not fill a global batch.
  DistributedSampler(std::int64_t samples, BatchGeometry geometry, std::uint64_t seed, bool shuffle,
                     Uneven uneven = Uneven::join);

  /// Draws the permutation of `epoch`.
  void set_epoch(std::uint32_t epoch);

  std::int64_t steps_per_epoch() const;
  /// Samples all ranks together process in step `step`: G, or with join what is left in the last
  /// one.
  std::int64_t global_samples(std::int64_t step) const;
  /// Sample numbers of this rank for micro-batch `micro` of step `step`; may be empty in the last
  /// step only.
  std::span<const std::int64_t> micro_batch(std::int64_t step, std::int64_t micro) const;

  const BatchGeometry& geometry() const { return geometry_; }

 private:
  std::int64_t samples_;
  BatchGeometry geometry_;
  std::uint64_t seed_;
  bool shuffle_;
  Uneven uneven_;
  std::vector<std::int64_t> order_;
};

}  // namespace brigade::data
