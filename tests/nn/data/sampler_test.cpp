#include "nn/data/sampler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "tests/support/expect_error.h"

namespace brigade::data {
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

/// What ranks process in step `step` when there were 4 ranks with batches of 3 at first.
std::vector<std::int64_t> step_of_those_left(int ranks, std::int64_t accum, std::int64_t step) {
  std::vector<std::int64_t> all;
  for (std::int64_t micro = 0; micro < accum; ++micro) {
    for (int rank = 0; rank < ranks; ++rank) {
      const BatchGeometry geometry{
          .batch = 3, .accum = accum, .ranks = ranks, .rank = rank, .stride = 12};
      const DistributedSampler sampler(100, geometry, 5, true);
      EXPECT_EQ(sampler.steps_per_epoch(), 9);
      const auto part = sampler.micro_batch(step, micro);
      all.insert(all.end(), part.begin(), part.end());
    }
  }
  return all;
}

TEST(Sampler, LeavesOutTheSamplesOfLostRanks) {
  for (const std::int64_t step : {0, 5}) {
    std::vector<std::int64_t> expected = global_step(100, 3, 1, 4, step);
    expected.resize(9);
    EXPECT_THAT(step_of_those_left(3, 1, step), ElementsAreArray(expected));
  }
  EXPECT_EQ(step_of_those_left(3, 1, 8).size(), 4U) << "the epoch's last step";
}

TEST(Sampler, DividesTheGlobalBatchAmongThoseThatAreLeft) {
  for (const std::int64_t step : {0, 5, 8}) {
    EXPECT_THAT(step_of_those_left(3, 2, step), ElementsAreArray(global_step(100, 3, 1, 4, step)));
  }
}

/// Everything an epoch processes, in order.
std::vector<std::int64_t> epoch_of(Uneven uneven, std::int64_t samples, bool shuffle) {
  std::vector<std::int64_t> all;
  const DistributedSampler any(samples, {4, 1, 2, 0}, 5, shuffle, uneven);
  for (std::int64_t step = 0; step < any.steps_per_epoch(); ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      const DistributedSampler sampler(samples, {4, 1, 2, rank}, 5, shuffle, uneven);
      const auto part = sampler.micro_batch(step, 0);
      EXPECT_TRUE(uneven == Uneven::join || part.size() == 4U);
      all.insert(all.end(), part.begin(), part.end());
    }
  }
  return all;
}

TEST(Sampler, DropLeavesOutTheIncompleteBatch) {
  std::vector<std::int64_t> permutation = epoch_of(Uneven::join, 21, true);
  permutation.resize(16);
  EXPECT_THAT(epoch_of(Uneven::drop, 21, true), ElementsAreArray(permutation));
  EXPECT_EQ(epoch_of(Uneven::drop, 24, true), epoch_of(Uneven::join, 24, true));
}

TEST(Sampler, PadFillsTheIncompleteBatchFromTheBeginningOfThePermutation) {
  std::vector<std::int64_t> permutation = epoch_of(Uneven::join, 21, true);
  permutation.insert(permutation.end(), permutation.begin(), permutation.begin() + 3);
  EXPECT_THAT(epoch_of(Uneven::pad, 21, true), ElementsAreArray(permutation));
  EXPECT_EQ(epoch_of(Uneven::pad, 24, true), epoch_of(Uneven::join, 24, true));
}

TEST(Sampler, PadGoesRoundAndRoundAFewSamples) {
  EXPECT_THAT(epoch_of(Uneven::pad, 3, false), ElementsAre(0, 1, 2, 0, 1, 2, 0, 1));
}

TEST(Sampler, PadFollowsTheNextEpochsPermutation) {
  DistributedSampler sampler(5, {.batch = 8}, 9, true, Uneven::pad);
  sampler.set_epoch(1);
  const auto order = to_vector(sampler.micro_batch(0, 0));
  EXPECT_EQ(sampler.global_samples(0), 8);
  EXPECT_THAT(std::vector(order.begin() + 5, order.end()),
              ElementsAreArray(std::vector(order.begin(), order.begin() + 3)));
}

TEST(Sampler, RefusesToDropEverything) {
  EXPECT_ERROR_OF(
      UsageError, DistributedSampler(7, {4, 1, 2, 0}, 5, true, Uneven::drop),
      "sampler: the 7 samples do not fill one global batch of 8, and drop leaves out what "
      "does not; use join or pad, or a smaller batch");
}

TEST(Sampler, RefusesAGlobalBatchThatNoIntegerCounts) {
  EXPECT_ERROR(DistributedSampler(7, {std::int64_t{1} << 62U, 1, 4, 0}, 5, true),
               "sampler: expected a global batch of less than 2^63 samples, got batch "
               "4611686018427387904 and accum 1");
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
}  // namespace brigade::data
