#include "nn/data/batch_loader.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "core/error.h"
#include "core/runtime/context.h"
#include "nn/data/synthetic.h"

namespace brigade::data {
namespace {

constexpr std::int64_t kSamples = 40;
constexpr BatchGeometry kGeometry{.batch = 6, .accum = 2, .ranks = 1, .rank = 0};

/// Counts what it is asked for, and can refuse.
class ObservedDataset final : public Dataset {
 public:
  explicit ObservedDataset(std::chrono::milliseconds each = {}) : each_(each) {}

  std::int64_t size() const override { return data_.size(); }
  std::int64_t input_width() const override { return data_.input_width(); }
  std::int64_t output_width() const override { return data_.output_width(); }
  bool classes() const override { return data_.classes(); }

  void read(std::span<const std::int64_t> samples, const Batch& batch) const override {
    std::this_thread::sleep_for(each_);
    data_.read(samples, batch);
    const std::lock_guard lock(mutex_);
    if (++reads_ > readable_) {
      throw Error("damaged sample");
    }
    changed_.notify_all();
  }

  void refuse_after(int reads) { readable_ = reads; }
  int reads() const {
    const std::lock_guard lock(mutex_);
    return reads_;
  }
  /// Whether there have been `reads` of them within a few seconds.
  bool await_reads(int reads) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return reads_ >= reads; });
  }

 private:
  std::chrono::milliseconds each_;
  SyntheticDataset data_{{.in = 5, .out = 3, .size = kSamples}};
  int readable_ = 1'000'000;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int reads_ = 0;
};

DistributedSampler make_sampler() {
  return {kSamples, kGeometry, /*seed=*/3, /*shuffle=*/true};
}

class BatchLoading : public ::testing::TestWithParam<Prefetch> {};

TEST_P(BatchLoading, GivesTheSamplersBatchesThroughTheEpochs) {
  const ObservedDataset data;
  DistributedSampler sampler = make_sampler();
  DistributedSampler expected = make_sampler();
  BatchLoader loader(data, sampler, kCpu, GetParam());
  const std::int64_t steps = expected.steps_per_epoch();
  for (std::int64_t step = 0; step < 3 * steps; ++step) {
    if (step % steps == 0) {
      expected.set_epoch(static_cast<std::uint32_t>(step / steps));
    }
    const std::vector<Batch>& batches = loader.load(step);
    ASSERT_EQ(std::ssize(batches), kGeometry.accum);
    for (std::int64_t micro = 0; micro < kGeometry.accum; ++micro) {
      const Batch& batch = batches[static_cast<std::size_t>(micro)];
      const Batch want = load_batch(data, expected.micro_batch(step % steps, micro), kCpu);
      EXPECT_EQ(batch.inputs.shape(), want.inputs.shape()) << step << "." << micro;
      EXPECT_EQ(batch.inputs.to_vector<float>(), want.inputs.to_vector<float>());
      EXPECT_EQ(batch.targets.to_vector<float>(), want.targets.to_vector<float>());
    }
  }
}

TEST_P(BatchLoading, AllocatesNothingAfterItsConstruction) {
  const ObservedDataset data;
  DistributedSampler sampler = make_sampler();
  BatchLoader loader(data, sampler, kCpu, GetParam());
  const auto allocator = Context::current().allocator(kCpu);
  const MemoryStats before = allocator->stats();
  std::vector<const std::byte*> places;
  for (std::int64_t step = 0; step < 9; ++step) {
    places.push_back(loader.load(step)[0].inputs.bytes());
    if (step >= 2) {
      EXPECT_EQ(places.back(), places[places.size() - 3]) << "also on the loader's own thread";
    }
  }
  EXPECT_EQ(allocator->stats().system_allocations, before.system_allocations);
  EXPECT_EQ(allocator->stats().in_use, before.in_use);
}

TEST_P(BatchLoading, RethrowsWhatReadingThrew) {
  ObservedDataset data;
  DistributedSampler sampler = make_sampler();
  data.refuse_after(2 * kGeometry.accum);
  BatchLoader loader(data, sampler, kCpu, GetParam());
  loader.load(0);
  loader.load(1);
  EXPECT_THROW(loader.load(2), Error);
}

INSTANTIATE_TEST_SUITE_P(, BatchLoading, ::testing::Values(Prefetch::off, Prefetch::on),
                         [](const auto& test) {
                           return test.param == Prefetch::on ? "Prefetch" : "InTheStep";
                         });

TEST(BatchLoader, ReadsTheNextStepWhileTheCurrentOneIsInUse) {
  const ObservedDataset data;
  DistributedSampler sampler = make_sampler();
  BatchLoader loader(data, sampler, kCpu, Prefetch::on);
  const std::vector<Batch>& batches = loader.load(0);
  const std::vector<float> values = batches[0].inputs.to_vector<float>();
  EXPECT_TRUE(data.await_reads(2 * kGeometry.accum)) << "step 1 is read before anyone asks";
  EXPECT_EQ(batches[0].inputs.to_vector<float>(), values);
  EXPECT_NE(loader.load(1)[0].inputs.to_vector<float>(), values);
}

TEST(BatchLoader, SkipsAStepThatIsStillBeingRead) {
  const ObservedDataset data(std::chrono::milliseconds(20));
  DistributedSampler sampler = make_sampler();
  BatchLoader ahead(data, sampler, kCpu, Prefetch::on);
  ahead.load(0);  // begins to read step 1, into the buffers that step 3 will have as well
  const std::vector<Batch>& batches = ahead.load(3);
  DistributedSampler other_sampler = make_sampler();
  BatchLoader alone(data, other_sampler, kCpu, Prefetch::off);
  const std::vector<Batch>& expected = alone.load(3);
  ASSERT_EQ(batches.size(), expected.size());
  for (std::size_t micro = 0; micro < batches.size(); ++micro) {
    EXPECT_EQ(batches[micro].inputs.to_vector<float>(), expected[micro].inputs.to_vector<float>());
  }
}

TEST(BatchLoader, ReadsNothingAheadUnlessTold) {
  const ObservedDataset data;
  DistributedSampler sampler = make_sampler();
  BatchLoader loader(data, sampler, kCpu, Prefetch::off);
  EXPECT_EQ(data.reads(), 0);
  loader.load(0);
  EXPECT_EQ(data.reads(), kGeometry.accum);
}

}  // namespace
}  // namespace brigade::data
