// What follows a backward and is recorded with it (autograd/replay.h).
#include <gmock/gmock.h>

#include "autograd/functions/mse_loss.h"
#include "autograd/replay.h"
#include "core/ops.h"
#include "core/runtime/context.h"
#include "tests/autograd/probe.h"
#include "tests/support/expect_error.h"
#include "tests/support/small_model.h"

namespace brigade::autograd {
namespace {

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kIn = 4;
constexpr std::int64_t kOut = 3;

TEST(ReplayedUpdate, IsLeftOutWhereNoneIsGiven) {
  const auto model = test::make_mlp({kIn, kOut});
  Replay replay(model->parameters(), kCpu);
  const Tensor x = test::data_rows(0, kRows, kIn, 3);
  const Tensor target = Tensor::zeros({kRows, kOut});
  Tensor updates = Tensor::zeros({1});
  const Tensor one = Tensor::from(std::vector<float>{1.0F}, {1});
  const auto step = [&](bool updated) {
    for (const Variable& parameter : model->parameters()) {
      parameter.zero_grad();
    }
    Replay::Work work{.forward = [&] { return mse_loss(model->forward(Variable(x)), target); }};
    if (updated) {
      work.update = [&] { ops::axpby(one, {.beta = 1.0}, updates); };
    }
    return replay.step({.inputs = x.bytes(), .samples = kRows}, work).replayed;
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(step(true), i == 2);
    EXPECT_EQ(step(false), i == 2) << "a recording of its own";
  }
  EXPECT_EQ(updates.item(), 3.0);
}

TEST(ReplayedUpdate, ToldToListenersIfItFailsWhileItIsRecorded) {
  EventLog log;
  LoggingListener listener(log);
  const auto model = test::make_mlp({kIn, kOut});
  std::vector<HookHandle> handles;
  for (const Variable& parameter : model->parameters()) {
    handles.push_back(parameter.attach_listener(listener, handles.size()));
  }
  Replay replay(model->parameters(), kCpu);
  const Tensor x = test::data_rows(0, kRows, kIn, 3);
  const Tensor target = test::data_rows(0, kRows, kOut, 4);
  int updates = 0;
  const auto step = [&] {
    for (const Variable& parameter : model->parameters()) {
      parameter.zero_grad();
    }
    const auto update = [&] {
      if (++updates == 2) {
        throw Error("no update");
      }
    };
    return replay
        .step({.inputs = x.bytes(), .targets = target.bytes(), .samples = kRows},
              {[&] { return mse_loss(model->forward(Variable(x)), target); }, update})
        .replayed;
  };
  EXPECT_FALSE(step());
  EXPECT_THAT(log, testing::Not(testing::Contains("abort")));
  EXPECT_THROW(step(), Error);
  EXPECT_THAT(log, testing::Contains("abort"));
  EXPECT_FALSE(step());
  EXPECT_FALSE(step());
  EXPECT_TRUE(step());
  EXPECT_EQ(updates, 4);
}

TEST(ReplayedUpdate, IsCountedWhereWhatFollowsItFails) {
  const auto model = test::make_mlp({kIn, kOut});
  for (const Variable& parameter : model->parameters()) {
    parameter.update_in_backward({.alpha = -0.1, .beta = 1.0});
  }
  Replay replay(model->parameters(), kCpu);
  const Tensor x = test::data_rows(0, kRows, kIn, 3);
  const Tensor target = test::data_rows(0, kRows, kOut, 4);
  const auto forward = [&] { return mse_loss(model->forward(Variable(x)), target); };
  bool fails = false;
  const auto fail = [&] {
    if (fails) {
      throw Error("what follows fails");
    }
  };
  const auto zero_grad = [&] {
    for (const Variable& parameter : model->parameters()) {
      parameter.zero_grad();
    }
  };
  const auto step = [&] {
    zero_grad();
    replay.step({.inputs = x.bytes(), .samples = kRows},
                {forward, [&] { repeatable(compute_stream(kCpu), fail); }});
  };
  step();
  step();
  const Variable stale = forward();
  fails = true;
  EXPECT_ERROR(step(), "what follows fails");
  zero_grad();
  EXPECT_ERROR(backward(stale),
               "linear: another backward has updated '0.weight' since forward has read it; with "
               "updates in backward each backward needs a forward of its own");
}

TEST(ReplayedUpdate, FollowsTheTimesOfForwardAndBackward) {
  const auto model = test::make_mlp({kIn, kOut});
  const Tensor x = test::data_rows(0, kRows, kIn, 3);
  const Tensor target = test::data_rows(0, kRows, kOut, 4);
  Replay replay(model->parameters(), kCpu);
  Stream& stream = compute_stream(kCpu);
  for (int step = 0; step < 5; ++step) {
    const Event begin = stream.record(Timing::on);
    const Replay::Outcome outcome =
        replay.step({.inputs = x.bytes(), .targets = target.bytes(), .samples = kRows},
                    {.forward = [&] { return mse_loss(model->forward(Variable(x)), target); },
                     .update = [] {}});
    EXPECT_EQ(outcome.replayed, step >= 2);
    EXPECT_GT(elapsed_ms(begin, outcome.forward_done), 0.0) << "step " << step;
    EXPECT_GT(elapsed_ms(outcome.forward_done, outcome.backward_done), 0.0) << "step " << step;
    EXPECT_GE(elapsed_ms(outcome.backward_done, stream.record(Timing::on)), 0.0);
    for (const Variable& parameter : model->parameters()) {
      parameter.zero_grad();
    }
  }
}

TEST(Replay, ForgetsTheOldestOfMoreThanItsMostKeys) {
  const Variable w(Tensor::zeros({2}), true, "w");
  Replay replay({w}, kCpu);
  const auto replayed = [&](std::int64_t key) {
    w.zero_grad();
    return replay
        .step({.samples = key}, {.forward = [&] { return mse_loss(w, Tensor::zeros({2})); }})
        .replayed;
  };
  constexpr auto kMost = static_cast<std::int64_t>(Replay::kMostKeys);
  for (int time = 0; time < 2; ++time) {
    for (std::int64_t key = 0; key < kMost; ++key) {
      EXPECT_FALSE(replayed(key));
    }
  }
  EXPECT_TRUE(replayed(0));
  EXPECT_FALSE(replayed(kMost));
  EXPECT_TRUE(replayed(1));
  EXPECT_FALSE(replayed(0)) << "the oldest";
}

TEST(Replay, IsOfParameters) {
  EXPECT_ERROR(Replay({Variable(Tensor::zeros({}))}, kCpu),
               "replay: expected parameters, got a variable that never required a gradient");
}

}  // namespace
}  // namespace brigade::autograd
