#include "autograd/replay.h"

#include <gmock/gmock.h>

#include <mutex>
#include <optional>

#include "autograd/functions/mse_loss.h"
#include "dist/comm/single_process.h"
#include "dist/ddp/grad_averager.h"
#include "optim/adam.h"
#include "tests/support/expect_error.h"
#include "tests/support/small_model.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

struct Training {
  SyncMode mode = SyncMode::overlap;
  int accum = 1;
  bool no_sync = false;                         // all micro-batches but the last
  std::optional<UpdateDeadline> deadline = {};  // of buckets that are updated as they arrive
};

struct Outcome {
  std::vector<float> weights;     // of the last rank
  std::uint64_t collectives = 0;  // likewise
  std::size_t replays = 0;
};

constexpr int kSteps = 7;

Outcome train(const Training& how, bool replays) {
  Outcome outcome;
  test::thread_world(3, [&](Communicator& comm) {
    const auto model = test::make_mlp({4, 16, 16, 3});
    const std::vector<autograd::Variable> parameters = model->parameters();
    GradAverager data_parallel(parameters, comm, {.mode = how.mode, .bucket_bytes = 512});
    optim::Adam optimizer(parameters, {});
    std::optional<GradAverager::InFlightScope> in_flight;
    if (how.deadline) {
      in_flight.emplace(data_parallel.update_in_flight(
          {.begin_step = [&] { optimizer.begin_step(); },
           .update = [&](const Bucket& bucket) { return optimizer.update_of(bucket.data); }},
          *how.deadline));
      comm.emulate_link({.alpha_us = 500, .gbps = 1});  // slower than a forward
    }
    std::optional<autograd::Replay> replay;
    if (replays) {
      replay.emplace(parameters, kCpu);
    }
    std::vector<Tensor> inputs;
    for (int micro = 0; micro < how.accum; ++micro) {
      inputs.push_back(Tensor::empty({5, 4}));
    }
    const Tensor target = test::data_rows(0, 5, 3, 9);

    const auto run = [&](int micro, bool synchronizes) {
      const Tensor& x = inputs[static_cast<std::size_t>(micro)];
      const auto forward = [&] {
        return autograd::mse_loss(model->forward(autograd::Variable(x)), target);
      };
      if (!replay) {
        autograd::backward(forward(), {.seed = 0.5});
        return;
      }
      replay->step({.inputs = x.bytes(),
                    .targets = target.bytes(),
                    .samples = 5,
                    .seed = 0.5,
                    .synchronizes = synchronizes},
                   {forward});
    };
    for (int step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      for (int micro = 0; micro < how.accum; ++micro) {
        const std::int64_t row = ((step * how.accum + micro) * comm.size() + comm.rank()) * 5;
        inputs[static_cast<std::size_t>(micro)].copy_from(test::data_rows(row, 5, 4, 3));
        const bool deferred = how.no_sync && micro + 1 < how.accum;
        const auto scope = deferred ? std::make_optional(data_parallel.no_sync()) : std::nullopt;
        run(micro, !deferred);
      }
      if (!how.deadline) {
        optimizer.step();
      }
    }
    data_parallel.verify_parameters_equal();
    if (comm.rank() == comm.size() - 1) {
      outcome = {.weights = autograd::values_of(parameters),
                 .collectives = comm.collectives(),
                 .replays = replay ? replay->replays() : 0};
    }
  });
  return outcome;
}

void expect_the_same(const Training& how) {
  const Outcome dynamic = train(how, false);
  const Outcome replayed = train(how, true);
  EXPECT_EQ(replayed.weights, dynamic.weights);
  EXPECT_EQ(replayed.collectives, dynamic.collectives);
  EXPECT_EQ(replayed.replays, static_cast<std::size_t>((kSteps - 2) * how.accum));
}

TEST(ReplayOnThreeRanks, EndsWithTheSameBitsInEveryMode) {
  for (const SyncMode mode :
       {SyncMode::naive, SyncMode::flat, SyncMode::per_param, SyncMode::overlap}) {
    SCOPED_TRACE(to_string(mode));
    expect_the_same({.mode = mode});
  }
}

TEST(ReplayOnThreeRanks, AccumulatesMicroBatches) {
  expect_the_same({.accum = 3});
}

TEST(ReplayOnThreeRanks, LeavesSynchronisationToTheLastMicroBatch) {
  expect_the_same({.accum = 3, .no_sync = true});
}

TEST(ReplayOnThreeRanks, UpdatesBucketsInFlight) {
  expect_the_same({.deadline = UpdateDeadline::end_of_backward});
}

TEST(ReplayOnThreeRanks, WaitsForUpdatesThatReachIntoTheNextForward) {
  expect_the_same({.deadline = UpdateDeadline::next_read});
}

TEST(Replay, DoesNotGoWithUnusedParametersThatAreToBeFound) {
  const auto model = test::make_mlp({4, 3});
  SingleProcessCommunicator comm(kCpu);
  const GradAverager data_parallel(model->parameters(), comm, {.unused = UnusedPolicy::find});
  autograd::Replay replay(model->parameters(), kCpu);
  const Tensor x = test::data_rows(0, 5, 4, 3);
  const auto step = [&] {
    for (const autograd::Variable& parameter : model->parameters()) {
      parameter.zero_grad();
    }
    replay.step(
        {}, {[&] {
          return autograd::mse_loss(model->forward(autograd::Variable(x)), Tensor::zeros({5, 3}));
        }});
  };
  step();
  step();
  EXPECT_ERROR(step(),
               "data parallel: a replay does not see which parameters are unused; use one or the "
               "other");
}

TEST(Replay, RecordsAnewWhenUpdatesInFlightBeginAndEnd) {
  const auto model = test::make_mlp({4, 3});
  SingleProcessCommunicator comm(kCpu);
  GradAverager data_parallel(model->parameters(), comm, {});
  autograd::Replay replay(model->parameters(), kCpu);
  const Tensor x = test::data_rows(0, 5, 4, 3);
  const Tensor target = test::data_rows(0, 5, 3, 9);
  const auto replays_of_four_steps = [&] {
    const std::size_t before = replay.replays();
    for (int step = 0; step < 4; ++step) {
      for (const autograd::Variable& parameter : model->parameters()) {
        parameter.zero_grad();
      }
      replay.step(
          {}, {[&] { return autograd::mse_loss(model->forward(autograd::Variable(x)), target); }});
    }
    return replay.replays() - before;
  };
  EXPECT_EQ(replays_of_four_steps(), 2U);
  {
    const auto scope = data_parallel.update_in_flight(
        {.begin_step = [] {}, .update = [](const Bucket&) { return [] {}; }},
        UpdateDeadline::end_of_backward);
    EXPECT_EQ(replays_of_four_steps(), 2U);
  }
  EXPECT_EQ(replays_of_four_steps(), 2U);
}

}  // namespace
}  // namespace brigade::dist
