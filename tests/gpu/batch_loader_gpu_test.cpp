#include "core/runtime/context.h"
#include "core/runtime/pinned.h"
#include "nn/data/batch_loader.h"
#include "nn/data/synthetic.h"
#include "tests/gpu/busy_until_waited_private.h"
#include "tests/gpu/gpu_test.h"

namespace brigade::apps {
namespace {

using BatchLoaderOnGpu = GpuTest;

TEST_F(BatchLoaderOnGpu, BringsEveryStepsSamples) {
  const data::SyntheticDataset data({.in = 512, .out = 16, .size = 2048});
  const data::BatchGeometry geometry{.batch = 100, .accum = 2, .ranks = 1, .rank = 0};
  data::DistributedSampler expected(data.size(), geometry, 3, true);
  for (const data::Prefetch prefetch : {data::Prefetch::off, data::Prefetch::on}) {
    data::DistributedSampler sampler(data.size(), geometry, 3, true);
    data::BatchLoader loader(data, sampler, kGpu, prefetch);
    const std::int64_t steps = expected.steps_per_epoch();
    for (std::int64_t step = 0; step < 2 * steps; ++step) {
      if (step % steps == 0) {
        expected.set_epoch(static_cast<std::uint32_t>(step / steps));
      }
      const std::vector<data::Batch>& batches = loader.load(step);
      for (std::int64_t micro = 0; micro < geometry.accum; ++micro) {
        const data::Batch& batch = batches[static_cast<std::size_t>(micro)];
        const data::Batch want =
            data::load_batch(data, expected.micro_batch(step % steps, micro), kCpu);
        ASSERT_EQ(batch.inputs.device(), kGpu);
        ASSERT_EQ(batch.inputs.to_vector<float>(), want.inputs.to_vector<float>()) << step;
        ASSERT_EQ(batch.targets.to_vector<float>(), want.targets.to_vector<float>()) << step;
      }
    }
  }
}

TEST_F(BatchLoaderOnGpu, OverwritesNoBatchThatTheGpuHasStillToRead) {
  const data::SyntheticDataset data({.in = 512, .out = 16, .size = 2048});
  const data::BatchGeometry geometry{.batch = 128, .accum = 1, .ranks = 1, .rank = 0};
  data::DistributedSampler expected(data.size(), geometry, 3, true);
  for (const data::Prefetch prefetch : {data::Prefetch::off, data::Prefetch::on}) {
    data::DistributedSampler sampler(data.size(), geometry, 3, true);
    data::BatchLoader loader(data, sampler, kGpu, prefetch);
    Tensor busy = Tensor::empty({std::int64_t{1} << 24}, DType::f32, kGpu);
    std::vector<Tensor> seen;
    for (std::int64_t step = 0; step < 8; ++step) {
      const data::Batch& batch = loader.load(step)[0];
      for (int repetition = 0; repetition < 50; ++repetition) {
        ops::fill(-1.0, busy);  // the step's reading of its batch stands in a long queue
      }
      seen.push_back(batch.inputs.clone());
    }
    for (std::int64_t step = 0; step < 8; ++step) {
      const data::Batch want = data::load_batch(data, expected.micro_batch(step, 0), kCpu);
      EXPECT_EQ(seen[static_cast<std::size_t>(step)].to_vector<float>(),
                want.inputs.to_vector<float>())
          << "step " << step;
    }
  }
}

TEST_F(BatchLoaderOnGpu, SaysThatItWaitsForTheDevice) {
  const data::SyntheticDataset data({.in = 512, .out = 16, .size = 2048});
  const data::BatchGeometry geometry{.batch = 128, .accum = 1, .ranks = 1, .rank = 0};
  data::DistributedSampler sampler(data.size(), geometry, 3, true);
  data::BatchLoader loader(data, sampler, kGpu, data::Prefetch::on);
  loader.load(0);
  const BusyUntilWaited busy;
  for (std::int64_t step = 1; step < 6; ++step) {
    loader.load(step);  // the buffers of step 2 are filled when the device is free
  }
  EXPECT_TRUE(busy.was_waited_for()) << "dist/watch must not take it for one that reads data";
}

TEST_F(BatchLoaderOnGpu, PinnedMemoryTravelsBothWays) {
  Tensor host = empty_pinned({1000, 3}, DType::f32);
  ops::uniform({.stream = {.seed = 1, .sequence = 0}, .low = -1.0, .high = 1.0}, host);
  const Tensor back = empty_pinned({1000, 3}, DType::f32);
  back.copy_from(host.to(kGpu));
  compute_stream(kGpu).synchronize();
  EXPECT_EQ(back.to_vector<float>(), host.to_vector<float>());
  EXPECT_EQ(empty_pinned({0, 3}, DType::f32).numel(), 0);
}

}  // namespace
}  // namespace brigade::apps
