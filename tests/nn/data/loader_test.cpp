#include "nn/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/random.h"
#include "nn/data/synthetic.h"
#include "tests/support/expect_error.h"

namespace brigade::data {
namespace {

/// Sample i is the number i, of class i % 2.
class Numbers final : public Dataset {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  std::int64_t input_width() const override { return 1; }
  std::int64_t output_width() const override { return 2; }
  bool classes() const override { return true; }
  void read(std::span<const std::int64_t> samples, const Batch& batch) const override {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      batch.inputs.data<float>()[i] = static_cast<float>(samples[i]);
      batch.targets.data<std::int64_t>()[i] = samples[i] % 2;
    }
  }

 private:
  std::int64_t size_;
};

struct Rank {
  int number = 0;
  int of = 1;
  int rank() const { return number; }
  int size() const { return of; }
  Device device() const { return kCpu; }
};

using Batches = std::vector<std::vector<float>>;

Batches inputs(Loader& loader, std::int64_t epoch) {
  Batches result;
  for (const auto& [x, y] : loader.epoch(epoch)) {
    result.push_back(x.to_vector<float>());
    EXPECT_EQ(y.shape(), (Shape{x.shape()[0]}));
  }
  return result;
}

TEST(Loader, GivesEachRankDisjointBatchesOfTheWholeEpoch) {
  std::multiset<float> seen;
  for (const int rank : {0, 1, 2}) {
    Loader loader(std::make_shared<Numbers>(24), Rank{rank, 3}, {.batch = 4});
    EXPECT_EQ(loader.size(), 2);
    for (const std::vector<float>& batch : inputs(loader, 0)) {
      EXPECT_EQ(batch.size(), 4U);
      seen.insert(batch.begin(), batch.end());
    }
  }
  EXPECT_EQ(seen.size(), 24U);
  EXPECT_EQ(std::set<float>(seen.begin(), seen.end()).size(), 24U);
}

TEST(Loader, FillsUpTheLastBatchesSoThatAllRanksHaveAsMany) {
  std::multiset<float> seen;
  for (const int rank : {0, 1}) {
    Loader loader(std::make_shared<Numbers>(9), Rank{rank, 2}, {.batch = 4});
    const Batches batches = inputs(loader, 0);
    ASSERT_EQ(batches.size(), 2U);
    for (const std::vector<float>& batch : batches) {
      EXPECT_EQ(batch.size(), 4U);
      seen.insert(batch.begin(), batch.end());
    }
  }
  EXPECT_EQ(std::set<float>(seen.begin(), seen.end()).size(), 9U);
}

TEST(Loader, DropsWhatDoesNotFillABatchWhereAsked) {
  Loader loader(std::make_shared<Numbers>(9), Rank{0, 2}, {.batch = 4, .uneven = Uneven::drop});
  EXPECT_EQ(inputs(loader, 0).size(), 1U);
}

TEST(Loader, ShufflesEachEpochAnewAndReproducibly) {
  Loader loader(std::make_shared<Numbers>(32), Rank{}, {.batch = 8, .seed = 5});
  const Batches first = inputs(loader, 0);
  const Batches second = inputs(loader, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(inputs(loader, 0), first);
  Loader other_seed(std::make_shared<Numbers>(32), Rank{}, {.batch = 8, .seed = 6});
  EXPECT_NE(inputs(other_seed, 0), first);
}

TEST(Loader, LetsBatchesBeKept) {
  Loader loader(std::make_shared<Numbers>(32), Rank{}, {.batch = 8});
  std::vector<Batch> kept;
  for (const Batch& batch : loader.epoch(0)) {
    kept.push_back(batch);
  }
  Batches values;
  for (const Batch& batch : kept) {
    values.push_back(batch.inputs.to_vector<float>());
  }
  EXPECT_EQ(values, inputs(loader, 0));
}

TEST(Loader, StartsAnEpochAfreshWhereTheLastOneWasLeftEarly) {
  Loader loader(std::make_shared<Numbers>(32), Rank{}, {.batch = 8});
  const Batches whole = inputs(loader, 1);
  EXPECT_EQ((*loader.epoch(0).begin()).size(), 8);
  EXPECT_EQ(inputs(loader, 1), whole);
}

TEST(Loader, GivesRanksOfDifferentManualSeedsDisjointBatches) {
  std::vector<float> seen;
  for (const int rank : {0, 1}) {
    manual_seed(100 + static_cast<std::uint64_t>(rank));
    Loader loader(std::make_shared<Numbers>(32), Rank{rank, 2}, {.batch = 8});
    for (const auto& batch : inputs(loader, 0)) {
      seen.insert(seen.end(), batch.begin(), batch.end());
    }
  }
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
  EXPECT_EQ(seen.size(), 32U);
}

TEST(Loader, KeepsTheOrderOfTheDataSetWithoutShuffling) {
  Loader loader(std::make_shared<Numbers>(4), Rank{}, {.batch = 2, .shuffle = false});
  EXPECT_EQ(inputs(loader, 3), (Batches{{0, 1}, {2, 3}}));
}

TEST(Loader, GivesValuesWhereTheTaskHasNoClasses) {
  Loader loader(synthetic({.in = 3, .out = 2, .size = 4}), Rank{}, {.batch = 4});
  for (const auto& [x, y] : loader.epoch(0)) {
    EXPECT_EQ(x.shape(), (Shape{4, 3}));
    EXPECT_EQ(y.shape(), (Shape{4, 2}));
  }
}

TEST(Loader, RefusesWhatIsNoDataSetAndNoEpoch) {
  EXPECT_ERROR(Loader(nullptr, Rank{}), "Loader: expected a data set, got a null pointer");
  Loader loader(std::make_shared<Numbers>(4), Rank{});
  EXPECT_ERROR(loader.epoch(-1), "Loader: expected an epoch from 0 up, got -1");
}

}  // namespace
}  // namespace brigade::data
