#include "apps/training/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "apps/training/evaluate.h"
#include "apps/training/model.h"
#include "core/error.h"
#include "core/runtime/context.h"
#include "dist/comm/single_process.h"
#include "nn/data/synthetic.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/support/thread_world.h"

namespace brigade::apps {
namespace {

struct Outcome {
  std::vector<double> losses;
  std::vector<float> weights;  // of the first layer
  double test_loss = 0.0;
};

struct Setup {
  int ranks = 1;
  std::int64_t batch = 12;
  std::int64_t accum = 1;
  dist::SyncMode mode = dist::SyncMode::overlap;
  bool deferred_sync = false;
  double lr = 0.1;
  double clip_norm = 0.0;
  data::Prefetch prefetch = data::Prefetch::off;
  std::int64_t epochs = 2;
  std::int64_t steps_per_look = 3;  // at the losses
};

/// Some epochs over 40 samples with a global batch of 12: the last batch of an epoch has 4.
Outcome train(const Setup& setup) {
  Outcome outcome;
  std::mutex mutex;
  test::thread_world(setup.ranks, [&](dist::Communicator& comm) {
    data::SyntheticDataset::Options options;
    options.in = 5;
    options.out = 3;
    const data::DataSplits data = data::make_synthetic(options, 40);
    const auto model = make_network({{5, 8, 3}, true}, 0, kCpu);
    const auto loss = make_loss("mse");
    dist::GradAverager data_parallel(model->parameters(), comm, {.mode = setup.mode});
    optim::SGD optimizer(data_parallel.parameters(), {.lr = setup.lr, .momentum = 0.9});
    data::DistributedSampler sampler(40, {setup.batch, setup.accum, comm.size(), comm.rank()},
                                     /*seed=*/3, /*shuffle=*/true);
    Trainer trainer({.model = *model,
                     .loss = *loss,
                     .optimizer = optimizer,
                     .data_parallel = data_parallel,
                     .sampler = sampler,
                     .data = *data.train,
                     .device = kCpu,
                     .deferred_sync = setup.deferred_sync,
                     .clip_norm = setup.clip_norm,
                     .prefetch = setup.prefetch});
    std::vector<double> losses;
    for (std::int64_t step = 0; step < setup.epochs * sampler.steps_per_epoch(); ++step) {
      trainer.step(step);
      if (step % setup.steps_per_look == 0) {
        const std::vector<double> some = trainer.take_losses();
        losses.insert(losses.end(), some.begin(), some.end());
      }
    }
    const std::vector<double> rest = trainer.take_losses();
    losses.insert(losses.end(), rest.begin(), rest.end());
    const Evaluation test = evaluate(*model, *loss, *data.test, 100, comm, kCpu);
    const std::lock_guard lock(mutex);
    if (comm.rank() == 0) {
      outcome = {losses, model->parameters()[0].data().to_vector<float>(), test.loss};
    }
  });
  return outcome;
}

void expect_near(const Outcome& actual, const Outcome& expected) {
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(actual.losses[i], expected.losses[i], 1e-5) << "loss of step " << i + 1;
  }
  ASSERT_EQ(actual.weights.size(), expected.weights.size());
  for (std::size_t i = 0; i < expected.weights.size(); ++i) {
    EXPECT_NEAR(actual.weights[i], expected.weights[i], 1e-5) << "weight " << i;
  }
  EXPECT_NEAR(actual.test_loss, expected.test_loss, 1e-5);
}

TEST(Trainer, TheMathematicsDoesNotDependOnTheNumberOfRanks) {
  const Outcome alone = train({});
  ASSERT_EQ(alone.losses.size(), 8U);
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  // The last batch of 4 gives 2, 3 and 6 ranks shares that differ, and some ranks none at all.
  expect_near(train({.ranks = 2, .batch = 6}), alone);
  expect_near(train({.ranks = 3, .batch = 4}), alone);
  expect_near(train({.ranks = 6, .batch = 2}), alone);
}

TEST(Trainer, MicroBatchesAddUpToTheBatchInEveryMode) {
  const Outcome alone = train({});
  expect_near(train({.ranks = 1, .batch = 4, .accum = 3}), alone);
  for (const dist::SyncMode mode : {dist::SyncMode::naive, dist::SyncMode::flat,
                                    dist::SyncMode::per_param, dist::SyncMode::overlap}) {
    expect_near(train({.ranks = 2, .batch = 2, .accum = 3, .mode = mode}), alone);
  }
  expect_near(train({.ranks = 2, .batch = 2, .accum = 3, .deferred_sync = true}), alone);
}

TEST(Trainer, ClipsTheAverageNotEachRanksShare) {
  const Outcome alone = train({.clip_norm = 0.1});
  EXPECT_GT(std::abs(alone.losses.back() - train({}).losses.back()), 1e-3) << "it does clip";
  expect_near(train({.ranks = 3, .batch = 4, .clip_norm = 0.1}), alone);
  expect_near(train({.ranks = 2, .batch = 2, .accum = 3, .deferred_sync = true, .clip_norm = 0.1}),
              alone);
}

/// Some samples of another data set, in the order given.
class Chosen final : public data::Dataset {
 public:
  Chosen(const data::Dataset& all, std::vector<std::int64_t> samples)
      : all_(all), samples_(std::move(samples)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  std::int64_t input_width() const override { return all_.input_width(); }
  std::int64_t output_width() const override { return all_.output_width(); }
  bool classes() const override { return all_.classes(); }
  void read(std::span<const std::int64_t> samples, const data::Batch& batch) const override {
    std::vector<std::int64_t> mine;
    for (const std::int64_t sample : samples) {
      mine.push_back(samples_[static_cast<std::size_t>(sample)]);
    }
    all_.read(mine, batch);
  }

 private:
  const data::Dataset& all_;
  std::vector<std::int64_t> samples_;
};

/// An epoch in the order of the file; a step has `accum` micro-batches of `batch` samples per rank.
std::vector<float> weights_after_an_epoch(const data::Dataset& data, std::int64_t batch,
                                          std::int64_t accum, bool never_sync,
                                          dist::Communicator& comm) {
  const auto model = make_network({{5, 8, 3}, true}, 0, kCpu);
  const auto loss = make_loss("mse");
  dist::GradAverager data_parallel(model->parameters(), comm, {});
  optim::SGD optimizer(data_parallel.parameters(), {.lr = 0.1, .momentum = 0.9});
  data::DistributedSampler sampler(data.size(), {batch, accum, comm.size(), comm.rank()}, 0, false);
  Trainer trainer({.model = *model,
                   .loss = *loss,
                   .optimizer = optimizer,
                   .data_parallel = data_parallel,
                   .sampler = sampler,
                   .data = data,
                   .device = kCpu,
                   .never_sync = never_sync});
  for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
    trainer.step(step);
  }
  return autograd::values_of(model->parameters());
}

TEST(Trainer, WithoutSynchronisationEachRankTrainsAsIfItWereAlone) {
  const data::DataSplits data = data::make_synthetic({.in = 5, .out = 3}, 41);
  test::thread_world(2, [&](dist::Communicator& comm) {
    // 2 ranks of 2 x 3 samples: steps of 12, 12, 12 and 5, of which rank 0 has 2 and rank 1 has 3.
    data::DistributedSampler sampler(41, {3, 2, comm.size(), comm.rank()}, 0, false);
    sampler.set_epoch(0);
    std::vector<std::int64_t> mine;
    for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      for (const std::int64_t micro : {0, 1}) {
        const auto samples = sampler.micro_batch(step, micro);
        mine.insert(mine.end(), samples.begin(), samples.end());
      }
    }
    ASSERT_EQ(mine.size(), comm.rank() == 0 ? 20U : 21U);
    const std::vector<float> beside = weights_after_an_epoch(*data.train, 3, 2, true, comm);
    dist::SingleProcessCommunicator nobody(kCpu);
    const std::vector<float> alone =
        weights_after_an_epoch(Chosen(*data.train, mine), 6, 1, false, nobody);
    ASSERT_EQ(beside.size(), alone.size());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_NEAR(beside[i], alone[i], 1e-6) << "rank " << comm.rank() << ", weight " << i;
    }
  });
}

// More steps than a device keeps losses of.
TEST(Trainer, ManyStepsLossesAreThoseOfEach) {
  const Outcome one_by_one = train({.ranks = 2, .batch = 6, .epochs = 40, .steps_per_look = 1});
  EXPECT_EQ(one_by_one.losses.size(), 160U);
  for (const std::int64_t steps : {63, 64, 65, 1000}) {
    EXPECT_EQ(train({.ranks = 2, .batch = 6, .epochs = 40, .steps_per_look = steps}).losses,
              one_by_one.losses)
        << steps;
  }
}

TEST(Trainer, ReadingAheadChangesNoBit) {
  for (const std::int64_t accum : {1, 3}) {
    const Outcome inline_read = train({.ranks = 2, .batch = 6 / accum, .accum = accum});
    const Outcome ahead =
        train({.ranks = 2, .batch = 6 / accum, .accum = accum, .prefetch = data::Prefetch::on});
    EXPECT_EQ(ahead.losses, inline_read.losses);
    EXPECT_EQ(ahead.weights, inline_read.weights);
  }
}

TEST(Trainer, ASteadyStepAllocatesNothingInAnyMode) {
  for (const dist::SyncMode mode : {dist::SyncMode::naive, dist::SyncMode::flat,
                                    dist::SyncMode::per_param, dist::SyncMode::overlap}) {
    test::thread_world(2, [&](dist::Communicator& comm) {
      const data::DataSplits data = data::make_synthetic({.in = 5, .out = 3}, 64);
      const auto model = make_network({{5, 8, 8, 3}, true}, 0, kCpu);
      const auto loss = make_loss("mse");
      dist::GradAverager data_parallel(model->parameters(), comm, {.mode = mode});
      optim::Adam optimizer(data_parallel.parameters(), {});
      data::DistributedSampler sampler(64, {4, 2, comm.size(), comm.rank()}, 3, true);
      Trainer trainer({*model, *loss, optimizer, data_parallel, sampler, *data.train, kCpu, true});
      const auto allocator = Context::current().allocator(kCpu);
      trainer.step(0);
      trainer.step(1);
      const MemoryStats before = allocator->stats();
      for (std::int64_t step = 2; step < 6; ++step) {
        trainer.step(step);
      }
      EXPECT_EQ(allocator->stats().system_allocations, before.system_allocations)
          << dist::to_string(mode);
      EXPECT_EQ(allocator->stats().in_use, before.in_use) << dist::to_string(mode);
    });
  }
}

TEST(Trainer, ALossThatIsNotFiniteEndsTheRun) {
  try {
    train({.lr = 1e30});
    FAIL() << "diverged unnoticed";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("on rank 0; training has diverged: lower --lr"), std::string::npos)
        << message;
  }
}

}  // namespace
}  // namespace brigade::apps
