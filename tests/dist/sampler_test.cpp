#include "dist/sampler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

namespace brigade::dist {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

std::vector<std::int64_t> to_vector(std::span<const std::int64_t> samples) {
  return {samples.begin(), samples.end()};
}

/// What all ranks together process in step `step`, micro-batch after micro-batch, rank after rank.
std::vector<std::int64_t> global_step(std::int64_t samples, std::int64_t batch, std::int64_t accum,
                                      int ranks, std::int64_t step) {
  std::vector<std::int64_t> all;
  for (std::int64_t micro = 0; micro < accum; ++micro) {
    for (int rank = 0; rank < ranks; ++rank) {
      const DistributedSampler sampler(samples, {batch, accum, ranks, rank}, 5, true);
      const auto part = sampler.micro_batch(step, micro);
      all.insert(all.end(), part.begin(), part.end());
    }
  }
  return all;
}

TEST(Sampler, TakesContiguousSlicesInFileOrderWithoutShuffle) {
  const DistributedSampler sampler(100, {.batch = 2, .accum = 2, .ranks = 3, .rank = 1}, 1, false);
  EXPECT_THAT(to_vector(sampler.micro_batch(0, 0)), ElementsAre(2, 3));
  EXPECT_THAT(to_vector(sampler.micro_batch(0, 1)), ElementsAre(8, 9));
  EXPECT_THAT(to_vector(sampler.micro_batch(1, 0)), ElementsAre(14, 15));
}

TEST(Sampler, GivesTheSameGlobalBatchForEveryNumberOfRanks) {
  const auto one = global_step(1000, 24, 1, 1, 3);
  EXPECT_THAT(global_step(1000, 12, 1, 2, 3), ElementsAreArray(one));
  EXPECT_THAT(global_step(1000, 8, 1, 3, 3), ElementsAreArray(one));
  EXPECT_THAT(global_step(1000, 3, 2, 4, 3), ElementsAreArray(one));
}

TEST(Sampler, ShardsAreDisjointAndTheirUnionIsTheDataSet) {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    for (const std::int64_t samples : {1, 7, 96, 97, 101}) {
      std::vector<std::int64_t> seen;
      const DistributedSampler any(samples, {4, 2, ranks, 0}, 5, true);
      for (std::int64_t step = 0; step < any.steps_per_epoch(); ++step) {
        const auto part = global_step(samples, 4, 2, ranks, step);
        EXPECT_EQ(static_cast<std::int64_t>(part.size()), any.global_samples(step));
        seen.insert(seen.end(), part.begin(), part.end());
      }
      std::sort(seen.begin(), seen.end());
      std::vector<std::int64_t> expected(static_cast<std::size_t>(samples));
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(seen, expected) << ranks << " ranks, " << samples << " samples";
    }
  }
}

TEST(Sampler, CutsTheLastBatchIntoPartsThatDifferByAtMostOne) {
  std::vector<std::size_t> sizes;
  for (int rank = 0; rank < 3; ++rank) {
    sizes.push_back(
        DistributedSampler(11, {.batch = 2, .accum = 1, .ranks = 3, .rank = rank}, 1, false)
            .micro_batch(1, 0)
            .size());
  }
  EXPECT_THAT(sizes, ElementsAre(1, 2, 2));
}

TEST(Sampler, ReshufflesPerEpochAndRepeatsPerSeed) {
  DistributedSampler a(50, {.batch = 50}, 9, true);
  DistributedSampler b(50, {.batch = 50}, 9, true);
  const auto epoch0 = to_vector(a.micro_batch(0, 0));
  a.set_epoch(1);
  EXPECT_NE(to_vector(a.micro_batch(0, 0)), epoch0);
  b.set_epoch(1);
  EXPECT_EQ(to_vector(a.micro_batch(0, 0)), to_vector(b.micro_batch(0, 0)));
  a.set_epoch(0);
  EXPECT_EQ(to_vector(a.micro_batch(0, 0)), epoch0);
}

}  // namespace
}  // namespace brigade::dist
