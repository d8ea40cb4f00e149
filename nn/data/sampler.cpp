#include "nn/data/sampler.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/random.h"

namespace brigade::data {

Uneven parse_uneven(std::string_view name) {
  constexpr std::array<std::string_view, 3> kNames{"join", "drop", "pad"};
  const auto* const found = std::ranges::find(kNames, name);
  if (found == kNames.end()) {
    throw UsageError(fmt::format("uneven: expected join, drop or pad, got '{}'", name));
  }
  return static_cast<Uneven>(found - kNames.begin());
}

DistributedSampler::DistributedSampler(std::int64_t samples, BatchGeometry geometry,
                                       std::uint64_t seed, bool shuffle, Uneven uneven)
    : samples_(samples), geometry_(geometry), seed_(seed), shuffle_(shuffle), uneven_(uneven) {
  BRIGADE_CHECK(samples > 0, "sampler: expected at least one sample, got {}", samples);
  BRIGADE_CHECK(geometry.batch > 0 && geometry.accum > 0,
                "sampler: expected batch and accum >= 1, got {} and {}", geometry.batch,
                geometry.accum);
  BRIGADE_CHECK(geometry.ranks > 0 && geometry.rank >= 0 && geometry.rank < geometry.ranks,
                "sampler: rank {} of {}", geometry.rank, geometry.ranks);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  BRIGADE_CHECK(
      geometry.batch <= kMost / geometry.accum / geometry.ranks,
      "sampler: expected a global batch of less than 2^63 samples, got batch {} and accum {}",
      geometry.batch, geometry.accum);
  if (uneven == Uneven::drop && samples < geometry.step_stride()) {
    throw UsageError(
        fmt::format("sampler: the {} samples do not fill one global batch of {}, and drop leaves "
                    "out what does not; use join or pad, or a smaller batch",
                    samples, geometry.step_stride()));
  }
  set_epoch(0);
}

void DistributedSampler::set_epoch(std::uint32_t epoch) {
  if (shuffle_) {
    order_ = random_permutation(samples_, {.seed = seed_, .sequence = sequences::kShuffle + epoch});
  } else if (order_.empty()) {
    order_.resize(static_cast<std::size_t>(samples_));
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
  }
  if (uneven_ == Uneven::pad) {
    // Round and round, if the whole data set is smaller than the gap.
    const auto padded = static_cast<std::size_t>(steps_per_epoch() * geometry_.step_stride());
    for (std::size_t i = 0; order_.size() < padded; ++i) {
      order_.push_back(order_[i]);
    }
  }
}

std::int64_t DistributedSampler::steps_per_epoch() const {
  const std::int64_t full = samples_ / geometry_.step_stride();
  const bool rest = samples_ % geometry_.step_stride() > 0;
  return full + (rest && uneven_ != Uneven::drop ? 1 : 0);
}

std::int64_t DistributedSampler::global_samples(std::int64_t step) const {
  BRIGADE_CHECK(step >= 0 && step < steps_per_epoch(), "sampler: step {} of {}", step,
                steps_per_epoch());
  const std::int64_t left = samples_ - step * geometry_.step_stride();
  return uneven_ == Uneven::pad ? geometry_.global_batch()
                                : std::min(geometry_.global_batch(), left);
}

std::span<const std::int64_t> DistributedSampler::micro_batch(std::int64_t step,
                                                              std::int64_t micro) const {
  BRIGADE_CHECK(micro >= 0 && micro < geometry_.accum, "sampler: micro-batch {} of {}", micro,
                geometry_.accum);
  // accum * ranks equal parts: micro-batch after micro-batch, in each rank after rank.
  const std::int64_t parts = geometry_.accum * geometry_.ranks;
  const std::int64_t part = micro * geometry_.ranks + geometry_.rank;
  const std::int64_t count = global_samples(step);
  const std::int64_t begin = count * part / parts;  // parts differ by at most one sample
  const std::int64_t end = count * (part + 1) / parts;
  const std::int64_t offset = step * geometry_.step_stride() + begin;
  return {order_.data() + offset, static_cast<std::size_t>(end - begin)};
}

}  // namespace brigade::data
