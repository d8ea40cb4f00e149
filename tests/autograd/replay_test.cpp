#include "autograd/replay.h"

#include <gmock/gmock.h>

#include <optional>

#include "autograd/functions/mse_loss.h"
#include "core/ops.h"
#include "core/runtime/context.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/autograd/probe.h"
#include "tests/support/expect_error.h"
#include "tests/support/small_model.h"

namespace brigade::autograd {
namespace {

constexpr std::int64_t kRows = 5;
constexpr std::int64_t kIn = 4;
constexpr std::int64_t kOut = 3;

/// A small network that trains on new data in every step, in two sets of buffers by turns, as a
/// prefetching loader gives them.
class Training {
 public:
  enum class Update { afterwards, recorded, in_backward };
  enum class Optimizer { sgd, adam };

  explicit Training(bool replays, Update update = Update::afterwards,
                    Optimizer optimizer = Optimizer::sgd)
      : model_(test::make_mlp({kIn, 8, 8, kOut})), records_update_(update == Update::recorded) {
    const double momentum = update == Update::in_backward ? 0.0 : 0.9;
    if (optimizer == Optimizer::adam) {
      optimizer_ =
          std::make_unique<optim::Adam>(model_->parameters(), optim::Adam::Options{.lr = 0.1});
    } else {
      optimizer_ = std::make_unique<optim::SGD>(
          model_->parameters(), optim::SGD::Options{.lr = 0.1, .momentum = momentum});
    }
    if (update == Update::in_backward) {
      optimizer_->update_in_backward();
    }
    if (replays) {
      replay_.emplace(model_->parameters(), kCpu);
    }
    for (int i = 0; i < 2; ++i) {
      inputs_.push_back(Tensor::empty({kRows, kIn}));
      targets_.push_back(Tensor::empty({kRows, kOut}));
    }
  }

  /// Returns the loss.
  double step(double seed = 1.0, bool forgets_gradients = true) {
    const std::size_t set = static_cast<std::size_t>(steps_) % 2;
    inputs_[set].copy_from(test::data_rows(steps_ * kRows, kRows, kIn, 3));
    targets_[set].copy_from(test::data_rows(steps_ * kRows, kRows, kOut, 4));
    ++steps_;
    if (forgets_gradients) {
      optimizer_->zero_grad();
    }
    const auto forward = [&] {
      return mse_loss(model_->forward(Variable(inputs_[set])), targets_[set]);
    };
    double loss = 0.0;
    bool updated = false;
    if (replay_) {
      updated = records_update_ && optimizer_->repeats();
      Replay::Work work{.forward = forward};
      if (updated) {
        work.update = [this] { optimizer_->step(); };
      }
      const Replay::Outcome outcome = replay_->step({.inputs = inputs_[set].bytes(),
                                                     .targets = targets_[set].bytes(),
                                                     .samples = kRows,
                                                     .seed = seed},
                                                    work);
      if (updated && outcome.replayed) {
        optimizer_->count_step();
      }
      loss = outcome.loss.item();
    } else {
      const Variable value = forward();
      backward(value, {.seed = seed});
      loss = value.data().item();
    }
    if (!updated) {
      optimizer_->step();
    }
    return loss;
  }

  /// Nothing records it.
  Variable forward() const { return mse_loss(model_->forward(Variable(inputs_[0])), targets_[0]); }
  std::vector<float> weights() const { return values_of(model_->parameters()); }
  std::vector<Variable> parameters() const { return model_->parameters(); }
  std::size_t replays() const { return replay_->replays(); }
  std::int64_t steps_of_optimizer() const { return optimizer_->steps_done(); }

 private:
  std::unique_ptr<nn::Sequential> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  bool records_update_;
  std::optional<Replay> replay_;
  std::vector<Tensor> inputs_, targets_;
  std::int64_t steps_ = 0;
};

constexpr std::size_t kUnreplayed = 4;  // a rehearsal and a recording for each set of buffers

TEST(Replay, EveryStepEndsWithTheBitsOfOneThatBuildsItsGraph) {
  Training dynamic(false);
  Training replayed(true);
  for (int step = 0; step < 12; ++step) {
    ASSERT_EQ(replayed.step(), dynamic.step()) << "step " << step;
    ASSERT_EQ(replayed.weights(), dynamic.weights()) << "step " << step;
  }
  EXPECT_EQ(replayed.replays(), 12 - kUnreplayed);
}

TEST(Replay, TheOptimizersStepIsRecordedWithItsBackward) {
  for (const auto optimizer : {Training::Optimizer::sgd, Training::Optimizer::adam}) {
    Training dynamic(false, Training::Update::afterwards, optimizer);
    Training replayed(true, Training::Update::recorded, optimizer);
    for (int step = 0; step < 12; ++step) {
      replayed.step();
      dynamic.step();
      ASSERT_EQ(replayed.weights(), dynamic.weights()) << "step " << step;
    }
    // The first step is another: its momentum has no past.
    EXPECT_EQ(replayed.replays(), 12 - kUnreplayed - 1);
    EXPECT_EQ(replayed.steps_of_optimizer(), 12);
  }
}

TEST(Replay, AGraphBuiltBeforeAReplayedUpdateIsRefusedAfterIt) {
  Training training(true, Training::Update::in_backward);
  for (std::size_t step = 0; step < kUnreplayed; ++step) {
    training.step();
  }
  const Variable stale = training.forward();
  training.step();
  EXPECT_EQ(training.replays(), 1U);
  for (const Variable& parameter : training.parameters()) {
    parameter.zero_grad();
  }
  EXPECT_ERROR(backward(stale),
               "linear: another backward has updated '4.weight' since forward has read it; with "
               "updates in backward each backward needs a forward of its own");
}

TEST(Replay, UpdatesInBackwardAreRepeated) {
  Training dynamic(false, Training::Update::in_backward);
  Training replayed(true, Training::Update::in_backward);
  for (int step = 0; step < 12; ++step) {
    replayed.step();
    dynamic.step();
    ASSERT_EQ(replayed.weights(), dynamic.weights()) << "step " << step;
  }
  EXPECT_EQ(replayed.replays(), 12 - kUnreplayed);
}

TEST(Replay, ABackwardWithAnotherSeedIsAnother) {
  Training dynamic(false);
  Training replayed(true);
  for (int step = 0; step < 12; ++step) {
    const double seed = step % 5 == 4 ? 0.5 : 1.0;
    replayed.step(seed);
    dynamic.step(seed);
    ASSERT_EQ(replayed.weights(), dynamic.weights()) << "step " << step;
  }
  EXPECT_EQ(replayed.replays(), 10 - kUnreplayed);
}

TEST(Replay, ABackwardThatAddsIsAnotherThanOneThatOverwrites) {
  Training dynamic(false);
  Training replayed(true);
  for (int step = 0; step < 12; ++step) {
    const bool forgets = step % 5 != 4;
    replayed.step(1.0, forgets);
    dynamic.step(1.0, forgets);
    ASSERT_EQ(replayed.weights(), dynamic.weights()) << "step " << step;
  }
  EXPECT_EQ(replayed.replays(), 10 - kUnreplayed);
}

TEST(Replay, AMovedGradientIsRecordedAgain) {
  Training dynamic(false);
  Training replayed(true);
  for (int step = 0; step < 12; ++step) {
    if (step == 6) {
      const Variable weight = replayed.parameters().front();
      weight.move_grad_to(Tensor::empty(weight.shape()));
    }
    replayed.step();
    dynamic.step();
    ASSERT_EQ(replayed.weights(), dynamic.weights()) << "step " << step;
  }
  EXPECT_EQ(replayed.replays(), 12 - 2 * kUnreplayed);
}

TEST(Replay, ARecordingThatFailsIsRehearsedAgain) {
  const auto model = test::make_mlp({kIn, kOut});
  optim::SGD optimizer(model->parameters(), {.lr = 0.1});
  Replay replay(model->parameters(), kCpu);
  const Tensor x = test::data_rows(0, kRows, kIn, 3);
  const Tensor target = test::data_rows(0, kRows, kOut, 4);
  int calls = 0;
  const auto step = [&] {
    optimizer.zero_grad();
    const auto forward = [&] {
      if (++calls == 2) {
        throw Error("out of memory");
      }
      return mse_loss(model->forward(Variable(x)), target);
    };
    replay.step({.inputs = x.bytes(), .targets = target.bytes(), .samples = kRows}, {forward});
  };
  step();
  EXPECT_ERROR(step(), "out of memory");
  step();
  step();
  EXPECT_EQ(replay.replays(), 0U) << "a rehearsal and a recording";
  step();
  EXPECT_EQ(replay.replays(), 1U);
  EXPECT_EQ(calls, 4);
}

TEST(Replay, LeavesAGradientAloneThatBackwardDoesNotReach) {
  const auto model = test::make_mlp({kIn, kOut});
  const auto other = test::make_mlp({kIn, kOut}, 2);
  std::vector<Variable> parameters = model->parameters();
  const std::vector<Variable> unused = other->parameters();
  parameters.insert(parameters.end(), unused.begin(), unused.end());
  optim::SGD optimizer(parameters, {.lr = 0.1});
  Replay replay(parameters, kCpu);
  const Tensor x = test::data_rows(0, kRows, kIn, 3);
  const Tensor target = test::data_rows(0, kRows, kOut, 4);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    replay.step({.inputs = x.bytes(), .targets = target.bytes(), .samples = kRows},
                {[&] { return mse_loss(model->forward(Variable(x)), target); }});
    EXPECT_TRUE(model->parameters().front().grad_state()->filled) << "step " << step;
    EXPECT_FALSE(unused.front().grad_state()->filled) << "step " << step;
  }
  EXPECT_EQ(replay.replays(), 1U);
}

TEST(Replay, LeavesMemoryAloneThatOthersHaveBeenGivenSince) {
  Training replayed(true);
  for (std::size_t step = 0; step < kUnreplayed; ++step) {
    replayed.step();
  }
  // As large as the activations, so an allocator would give these their memory.
  std::vector<Tensor> others;
  for (const std::int64_t columns : {std::int64_t{8}, kOut, kIn}) {
    for (int i = 0; i < 8; ++i) {
      others.push_back(Tensor::empty({kRows, columns}));
      ops::fill(7.0, others.back());
    }
  }
  replayed.step();
  ASSERT_EQ(replayed.replays(), 1U);
  for (const Tensor& other : others) {
    EXPECT_THAT(other.to_vector<float>(), testing::Each(7.0F));
  }
}

TEST(Replay, TakesNoMemoryAfterTheRehearsals) {
  Training replayed(true);
  for (std::size_t step = 0; step < kUnreplayed / 2; ++step) {
    replayed.step();
  }
  // Without what the test itself allocates to make the data.
  const auto taken = [] {
    return Context::current().memory_stats(kCpu).system_allocations -
           Context::current().allocator(kCpu)->stats().system_allocations;
  };
  const std::uint64_t before = taken();
  EXPECT_GT(before, 0U);
  for (std::size_t step = 0; step < 6; ++step) {
    replayed.step();
  }
  EXPECT_EQ(taken(), before);
}

TEST(Replay, RefusesAHookItWouldNotCall) {
  Training replayed(true);
  const Variable weight = replayed.parameters().front();
  for (std::size_t step = 0; step <= kUnreplayed; ++step) {
    replayed.step();
  }
  {
    const HookHandle hook = weight.add_hook([](const Tensor& /*grad*/) { return Tensor(); });
    EXPECT_ERROR(
        replayed.step(),
        "replay: parameter '0.weight' has a hook, which a replay would not call; remove it, or do "
        "not replay");
  }
  Training dynamic(false);
  for (int step = 0; step < 6; ++step) {
    dynamic.step();
  }
  replayed.step();  // without the hook it rehearses again
  EXPECT_EQ(replayed.replays(), 1U);
}

/// What listeners hear of a replay: all of it, and of a failure the end.
TEST(Replay, TellsListenersAndForgetsWhatItHasRecordedWhenOneMoreComes) {
  EventLog log;
  class Failing final : public LoggingListener {
   public:
    using LoggingListener::LoggingListener;
    void on_backward_end() override {
      LoggingListener::on_backward_end();
      if (fails) {
        throw Error("peer is gone");
      }
    }
    bool fails = false;
  };
  Failing listener(log);
  Training replayed(true);
  std::vector<HookHandle> handles;
  const std::vector<Variable> parameters = replayed.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    handles.push_back(parameters[i].attach_listener(listener, i));
  }
  replayed.step();
  const EventLog dynamic = std::exchange(log, {});
  for (std::size_t step = 1; step < kUnreplayed; ++step) {
    replayed.step();
  }
  log.clear();
  replayed.step();
  EXPECT_EQ(replayed.replays(), 1U);
  EXPECT_EQ(log, dynamic);

  listener.fails = true;
  EXPECT_ERROR(replayed.step(), "peer is gone");
  EXPECT_EQ(log.back(), "abort");
  listener.fails = false;
  handles.clear();
  log.clear();
  replayed.step();
  EXPECT_TRUE(log.empty()) << "a listener that is gone is not called";
}

}  // namespace
}  // namespace brigade::autograd
