#include "dist/checkpoint/checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "autograd/engine.h"
#include "autograd/functions/binary.h"
#include "autograd/functions/dropout.h"
#include "autograd/functions/loss.h"
#include "core/random.h"
#include "dist/hooks/half_hook.h"
#include "dist/hooks/power_sgd.h"
#include "dist/hooks/top_k.h"
#include "dist/overlap/in_flight_updates.h"
#include "nn/data/loader.h"
#include "nn/data/synthetic.h"
#include "nn/loss.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/support/expect_error.h"
#include "tests/support/small_model.h"
#include "tests/support/small_training.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

namespace fs = std::filesystem;
using autograd::Variable;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t kGlobalBatch = 12;
constexpr std::int64_t kSamples = 40;  // so an epoch has a batch that is filled up

struct Training {
  SyncMode mode = SyncMode::overlap;
  std::function<std::shared_ptr<CommHook>()> hook = [] {
    return std::make_shared<PlainAllReduce>();
  };
  bool adam = false;
  bool cross_step = false;
  bool dropout = false;
  bool rebuilt = false;  ///< buckets change after the first step
  CheckpointOptions checkpoints = {};
  std::int64_t steps = 9;  ///< to end after, counted from the very first
};

class ThreadRank {
 public:
  explicit ThreadRank(Communicator& comm) : comm_(comm) {}
  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }
  Device device() const { return kCpu; }

 private:
  Communicator& comm_;
};

/// An MLP with a mask between its two halves. `backwards`: registered in another order than used,
/// so the buckets are rebuilt after the first step.
class Model : public nn::Module {
 public:
  explicit Model(bool drops, bool backwards = false) : drops_(drops) {
    if (!backwards) {
      register_module("first", *first_);
    }
    register_module("second", *second_);
    if (backwards) {
      register_module("first", *first_);
    }
  }
  Variable forward(const Variable& x) override {
    const Variable hidden = first_->forward(x);
    return second_->forward(drops_ ? autograd::dropout(hidden, 0.25) : hidden);
  }

 private:
  std::unique_ptr<nn::Sequential> first_ = test::make_mlp({6, 16, 8}, 1);
  std::unique_ptr<nn::Sequential> second_ = test::make_mlp({8, 16, 3}, 2);
  bool drops_;
};

/// Trains as a user's program does, from a checkpoint in `directory` if there is one, and returns
/// the weights of rank 0. `when_done`: called on every rank after each step.
using AfterStep = std::function<void(std::int64_t step)>;
std::vector<float> train(
    int ranks, const fs::path& directory, const Training& training,
    const AfterStep& when_done = [](std::int64_t) {}) {
  const std::shared_ptr<const data::Dataset> dataset =
      data::make_synthetic({.in = 6, .out = 3, .classes = false, .seed = 5}, kSamples).train;
  std::vector<float> weights;
  test::thread_world(ranks, [&](Communicator& comm) {
    manual_seed(11);
    Model model(training.dropout, training.rebuilt);
    DataParallel<nn::Module> ddp(
        model, comm, {.mode = training.mode, .bucket_bytes = 600, .hook = training.hook()});
    std::unique_ptr<optim::Optimizer> optimizer;
    if (training.adam) {
      optimizer = std::make_unique<optim::Adam>(ddp.parameters());
    } else {
      optimizer = std::make_unique<optim::SGD>(ddp.parameters(),
                                               optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
    }
    data::Loader loader(dataset, ThreadRank(comm), {.batch = kGlobalBatch / comm.size()});
    Checkpoints checkpoints(directory, ddp, *optimizer, loader, training.checkpoints);
    std::optional<InFlightUpdates> in_flight;
    if (training.cross_step) {
      in_flight.emplace(ddp.averager(), calls_of(*optimizer), UpdateDeadline::next_read, 512);
    }
    for (std::int64_t epoch = 0; checkpoints.step() < training.steps; ++epoch) {
      for (const auto& [x, y] : loader.epoch(epoch)) {
        if (checkpoints.step() == training.steps) {
          break;
        }
        optimizer->zero_grad();
        autograd::backward(autograd::mse_loss(ddp(Variable(x)), y));
        if (!in_flight) {
          optimizer->step();
        }
        when_done(checkpoints.step() + 1);
        checkpoints.after_step();
      }
    }
    in_flight.reset();
    ddp.verify_parameters_equal();
    if (comm.rank() == 0) {
      weights = autograd::values_of(model.parameters());
    }
  });
  return weights;
}

struct Case {
  std::string name;
  Training training;
  int ranks = 2;
};

std::vector<Case> cases() {
  const auto hook = [](auto make) { return Training{.hook = make}; };
  return {
      {"plain", {}},
      {"one_rank", {}, 1},
      {"three_ranks", {}, 3},
      {"naive", {.mode = SyncMode::naive}},
      {"flat", {.mode = SyncMode::flat}},
      {"per_param", {.mode = SyncMode::per_param}},
      {"adam", {.adam = true}},
      {"cross_step", {.cross_step = true}},
      {"cross_step_adam", {.adam = true, .cross_step = true}},
      {"dropout", {.dropout = true}},
      {"bf16", hook([] { return std::make_shared<HalfHook>(DType::bf16); })},
      {"powersgd", hook([] { return std::make_shared<PowerSgd>(2); })},
      {"topk", hook([] { return std::make_shared<TopK>(0.1); })},
      {"rebuilt_topk", {.hook = [] { return std::make_shared<TopK>(0.1); }, .rebuilt = true}},
  };
}

class ResumesToTheBit : public testing::TestWithParam<Case> {};

TEST_P(ResumesToTheBit, AfterAnyStep) {
  const auto& [name, training, ranks] = GetParam();
  const TemporaryDirectory directory;
  const std::vector<float> whole = train(ranks, directory / "whole", training);
  for (const std::int64_t stop : {1, 2, 4, 6}) {  // an epoch has four steps
    Training first = training;
    first.checkpoints.every = stop;
    first.steps = stop;
    const fs::path place = directory / std::to_string(stop);
    train(ranks, place, first);
    EXPECT_EQ(train(ranks, place, training), whole) << "after step " << stop;
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, ResumesToTheBit, testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

TEST(Checkpoints, ContinueWithAnotherNumberOfRanks) {
  const TemporaryDirectory directory;
  const std::vector<float> whole = train(1, directory / "whole", {});
  train(3, directory / "parts", {.checkpoints = {.every = 5}, .steps = 5});
  EXPECT_LT(test::relative_l2(train(2, directory / "parts", {}), whole), 1e-6);
}

TEST(Checkpoints, ShareOutTheErrorFeedbackAmongOtherRanks) {
  const TemporaryDirectory directory;
  const auto hook = [] { return std::make_shared<TopK>(0.02); };
  train(3, directory / "c", {.hook = hook, .checkpoints = {.every = 5}, .steps = 5});
  const CheckpointStore store(directory / "c");
  double before = 0.0;
  for (const char* file : {"rank-0.safetensors", "rank-1.safetensors", "rank-2.safetensors"}) {
    for (const auto& [name, error] : store.read(5, file)) {
      before += name == "error.first.0.weight" ? error.to_vector<float>()[0] : 0.0;
    }
  }
  std::atomic<double> after = 0.0;
  test::thread_world(2, [&](Communicator& comm) {
    Model model(false);
    DataParallel<nn::Module> ddp(model, comm, {.bucket_bytes = 600, .hook = hook()});
    optim::SGD sgd(ddp.parameters(), {.lr = 0.1, .momentum = 0.9});
    const Checkpoints checkpoints(directory / "c",
                                  parts_of(model.parameters(), ddp.averager(), sgd), {});
    for (const auto& [name, error] : ddp.averager().options().hook->state()) {
      after += name == "error.first.0.weight" ? error.to_vector<float>()[0] : 0.0;
    }
  });
  EXPECT_NE(before, 0.0);
  EXPECT_NEAR(after, before, 1e-6 * std::abs(before));
}

TEST(Checkpoints, UseTheOneBeforeADamagedOne) {
  const TemporaryDirectory directory;
  const std::vector<float> whole = train(2, directory / "whole", {});
  train(2, directory / "c", {.checkpoints = {.every = 3}, .steps = 6});
  const CheckpointStore store(directory / "c");
  const fs::path file = store.path_of(6) / "optimizer.safetensors";
  fs::resize_file(file, fs::file_size(file) - 4);
  testing::internal::CaptureStderr();
  EXPECT_EQ(train(2, directory / "c", {}), whole);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("WARNING: that of step 6 is refused, and the one before it used"));
  EXPECT_THAT(said, HasSubstr("continues after step 3"));
}

TEST(Checkpoints, SayThatThereIsNone) {
  const TemporaryDirectory directory;
  testing::internal::CaptureStderr();
  train(2, directory / "c", {.steps = 1});
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "[rank 0] checkpoint: no checkpoint to continue from, so training begins with step 1\n");
}

TEST(Checkpoints, AreRefusedByAnotherRun) {
  const TemporaryDirectory directory;
  train(1, directory / "c", {.checkpoints = {.every = 3, .run = {"seed 1", "x"}}, .steps = 3});
  EXPECT_THAT(
      [&] {
        train(1, directory / "c", {.checkpoints = {.run = {"seed 2", "x"}}});
      },
      ThrowsMessage<UsageError>(HasSubstr("a run with 'seed 2', got one with 'seed 1'")));
  EXPECT_THAT(
      [&] {
        train(1, directory / "c", {.adam = true, .checkpoints = {.run = {"seed 1", "x"}}});
      },
      ThrowsMessage<UsageError>(HasSubstr("expected exp_avg.first.0.weight")));
}

TEST(Checkpoints, OfASmallerNetworkAreRefused) {
  const TemporaryDirectory directory;
  test::thread_world(1, [&](Communicator& comm) {
    const auto model = test::make_mlp({6, 3});
    GradAverager averager(model->parameters(), comm, {});
    optim::SGD sgd(model->parameters(), {.lr = 0.1});
    Checkpoints(directory / "c", parts_of(model->parameters(), averager, sgd), {}).save();
  });
  EXPECT_THAT(([&] {
                test::thread_world(1, [&](Communicator& comm) {
                  const auto model = test::make_mlp({6, 3, 3});
                  GradAverager averager(model->parameters(), comm, {});
                  optim::SGD sgd(model->parameters(), {.lr = 0.1});
                  const Checkpoints refused(directory / "c",
                                            parts_of(model->parameters(), averager, sgd), {});
                });
              }),
              ThrowsMessage<UsageError>(HasSubstr("expected 2.weight [3, 3] f32, got nothing")));
}

TEST(Checkpoints, ThatCouldNotBeWrittenAreNotPromised) {
  const TemporaryDirectory directory;
  std::ofstream(directory / "file") << "in the way";
  testing::internal::CaptureStderr();
  EXPECT_THAT(([&] {
                train(1, directory / "file", {}, [](std::int64_t step) {
                  if (step == 3) {
                    raise(SIGTERM);
                  }
                });
              }),
              ThrowsMessage<Interrupted>(HasSubstr("after step 3; not written: ")));
  testing::internal::GetCapturedStderr();
}

TEST(Checkpoints, OfOneStepCanBeAskedFor) {
  const TemporaryDirectory directory;
  const std::vector<float> whole = train(1, directory / "whole", {});
  train(1, directory / "c", {.checkpoints = {.every = 2, .keep = 0}, .steps = 6});
  const auto from = [&](std::int64_t step) {
    return Training{.checkpoints = {.resume_from = directory / "c", .resume_step = step}};
  };
  EXPECT_EQ(train(1, directory / "other", from(2)), whole);
  EXPECT_THAT([&] { train(1, directory / "other", from(3)); },
              ThrowsMessage<UsageError>(HasSubstr("step-000000003, got none that is whole")));
}

TEST(Checkpoints, ThatCannotBeWrittenCostNoTraining) {
  const TemporaryDirectory directory;
  const std::vector<float> whole = train(2, directory / "whole", {});
  std::ofstream(directory / "file") << "in the way";
  testing::internal::CaptureStderr();
  EXPECT_EQ(train(2, directory / "file", {.checkpoints = {.every = 4}}), whole);
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      HasSubstr("WARNING: the checkpoint of step 4 is not written, the one before it remains: "
                "cannot make"));
}

TEST(Checkpoints, AreWrittenWhenASignalAsks) {
  const TemporaryDirectory directory;
  train(2, directory / "c", {.steps = 5}, [](std::int64_t step) {
    if (step == 3) {
      raise(SIGUSR1);
    }
  });
  EXPECT_EQ(CheckpointStore(directory / "c").check(3).step, 3);
}

TEST(Checkpoints, EndTheTrainingWhenASignalAsks) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const TemporaryDirectory directory;
    const std::vector<float> whole = train(2, directory / "whole", {});
    std::atomic<bool> sent = false;
    EXPECT_THAT(
        ([&] {
          train(2, directory / "c", {}, [&](std::int64_t step) {
            if (step == 3 && !sent.exchange(true)) {
              raise(signal);
            }
          });
        }),
        ThrowsMessage<Interrupted>(HasSubstr("a signal has ended the training after step 3")));
    EXPECT_EQ(train(2, directory / "c", {}), whole);
  }
}

TEST(Checkpoints, ComeByTheClockToo) {
  const TemporaryDirectory directory;
  train(2, directory / "c", {.checkpoints = {.minutes = 1e-9, .keep = 0}, .steps = 3});
  EXPECT_THAT(CheckpointStore(directory / "c").steps(), testing::ElementsAre(3, 2, 1));
}

}  // namespace
}  // namespace brigade::dist
