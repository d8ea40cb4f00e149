#include "nn/data/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/support/expect_error.h"

namespace brigade::data {
namespace {

SyntheticDataset make(std::int64_t size, bool classes = false, std::uint64_t seed = 1) {
  SyntheticDataset::Options options;
  options.in = 6;
  options.out = 4;
  options.classes = classes;
  options.seed = seed;
  options.size = size;
  return SyntheticDataset(options);
}

std::vector<std::int64_t> first(std::int64_t count) {
  std::vector<std::int64_t> samples(static_cast<std::size_t>(count));
  std::iota(samples.begin(), samples.end(), 0);
  return samples;
}

double mean_square(const std::vector<float>& values) {
  return std::transform_reduce(values.begin(), values.end(), 0.0, std::plus<>(),
                               [](float value) { return static_cast<double>(value) * value; }) /
         static_cast<double>(values.size());
}

TEST(SyntheticDataset, ASampleDoesNotDependOnHowManyThereAre) {
  const SyntheticDataset few = make(10);
  const SyntheticDataset many = make(700);
  EXPECT_EQ(load_batch(few, first(10), kCpu).inputs.to_vector<float>(),
            load_batch(many, first(10), kCpu).inputs.to_vector<float>());
  EXPECT_EQ(load_batch(few, first(10), kCpu).targets.to_vector<float>(),
            load_batch(many, first(10), kCpu).targets.to_vector<float>());
}

TEST(SyntheticDataset, AnotherSeedIsAnotherTask) {
  EXPECT_NE(load_batch(make(4), first(4), kCpu).inputs.to_vector<float>(),
            load_batch(make(4, false, 2), first(4), kCpu).inputs.to_vector<float>());
}

TEST(SyntheticDataset, InputsAndTargetsHaveUnitVariance) {
  const SyntheticDataset data = make(4096);
  EXPECT_NEAR(mean_square(load_batch(data, first(4096), kCpu).inputs.to_vector<float>()), 1.0,
              0.05);
  // Of the teacher's few random weights rather than of the samples, hence the wide margin.
  EXPECT_NEAR(mean_square(load_batch(data, first(4096), kCpu).targets.to_vector<float>()), 1.0,
              0.6);
}

TEST(SyntheticDataset, LabelsAreTheTeachersLargestOutput) {
  const std::vector<float> values =
      load_batch(make(300), first(300), kCpu).targets.to_vector<float>();
  const std::vector<std::int64_t> labels =
      load_batch(make(300, true), first(300), kCpu).targets.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto row = values.begin() + static_cast<std::ptrdiff_t>(4 * i);
    EXPECT_EQ(labels[i], std::max_element(row, row + 4) - row) << "sample " << i;
  }
}

TEST(SyntheticDataset, TestSamplesAreNotTrainingSamples) {
  SyntheticDataset::Options options;
  options.in = 3;
  options.out = 2;
  const DataSplits splits = make_synthetic(options, 300);
  EXPECT_EQ(splits.train->size(), 300);
  EXPECT_NE(load_batch(*splits.train, first(2), kCpu).inputs.to_vector<float>(),
            load_batch(*splits.test, first(2), kCpu).inputs.to_vector<float>());
}

TEST(SyntheticDataset, GathersAnyOrderAndNothing) {
  const SyntheticDataset data = make(300);
  const std::vector<float> all = load_batch(data, first(300), kCpu).inputs.to_vector<float>();
  const std::vector<std::int64_t> samples{299, 5};
  const std::vector<float> picked = load_batch(data, samples, kCpu).inputs.to_vector<float>();
  EXPECT_TRUE(std::equal(picked.begin(), picked.begin() + 6, all.begin() + 299 * 6));
  EXPECT_TRUE(std::equal(picked.begin() + 6, picked.end(), all.begin() + 5 * 6));
  EXPECT_EQ(load_batch(data, {}, kCpu).targets.shape(), Shape({0, 4}));
}

TEST(Synthetic, NeedsSizes) {
  EXPECT_ERROR(synthetic({.in = 3, .out = 2}),
               "synthetic: expected positive in, out and size, got 3, 2, 0");
}

}  // namespace
}  // namespace brigade::data
