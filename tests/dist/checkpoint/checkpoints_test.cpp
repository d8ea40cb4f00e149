#include "dist/checkpoint/checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "dist/checkpoint/snapshot_writer.h"
#include "dist/hooks/top_k.h"
#include "tests/dist/checkpoint/checkpointed_training.h"
#include "tests/support/small_training.h"
#include "tests/support/temporary_directory.h"

namespace brigade::dist {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

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
    const Checkpoints checkpoints(
        directory / "c", {.state = state_of(model.parameters(), sgd), .averager = ddp.averager()},
        {.run = {"global batch 12"}});
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

TEST(Checkpoints, KnowHowManyBatchesAStepHasUsed) {
  const TemporaryDirectory directory;
  const auto accumulate = [&](const fs::path& place, std::int64_t steps) {
    return train(2, place, {.accum = 2, .checkpoints = {.every = 3}, .steps = steps});
  };
  const std::vector<float> whole = accumulate(directory / "whole", 8);
  accumulate(directory / "c", 3);
  EXPECT_EQ(accumulate(directory / "c", 8), whole);
}

TEST(Checkpoints, OfAnotherRunInTheSameDirectoryAreNotMixedWithThisOnes) {
  const TemporaryDirectory directory;
  train(1, directory / "c", {.checkpoints = {.every = 2, .keep = 0}, .steps = 6});
  const std::string text = "step-000000006: expected no checkpoint beyond step 0";
  EXPECT_THAT(([&] { train(1, directory / "c", {.checkpoints = {.resume = false}}); }),
              ThrowsMessage<UsageError>(HasSubstr(text)));
  EXPECT_THAT(([&] { train(1, directory / "c", {.checkpoints = {.resume_step = 2}}); }),
              ThrowsMessage<UsageError>(HasSubstr("expected no checkpoint beyond step 2")));
}

TEST(Checkpoints, ThatAreDamagedGoWhenTheRunHasContinued) {
  const TemporaryDirectory directory;
  train(1, directory / "c", {.checkpoints = {.every = 3}, .steps = 6});
  const CheckpointStore store(directory / "c");
  fs::resize_file(store.path_of(6) / "model.safetensors", 10);
  train(1, directory / "c", {.checkpoints = {.every = 2, .keep = 1}, .steps = 5});
  EXPECT_THAT(store.steps(), testing::ElementsAre(4));
}

TEST(Checkpoints, OfASmallerNetworkAreRefused) {
  const TemporaryDirectory directory;
  test::thread_world(1, [&](Communicator& comm) {
    const auto model = test::make_mlp({6, 3});
    GradAverager averager(model->parameters(), comm, {});
    optim::SGD sgd(model->parameters(), {.lr = 0.1});
    Checkpoints(directory / "c",
                {.state = state_of(model->parameters(), sgd), .averager = averager}, {})
        .save();
  });
  EXPECT_THAT(([&] {
                test::thread_world(1, [&](Communicator& comm) {
                  const auto model = test::make_mlp({6, 3, 3});
                  GradAverager averager(model->parameters(), comm, {});
                  optim::SGD sgd(model->parameters(), {.lr = 0.1});
                  const Checkpoints refused(
                      directory / "c",
                      {.state = state_of(model->parameters(), sgd), .averager = averager}, {});
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

TEST(SnapshotWriter, DoesNotWaitForOtherRanksInADirectoryThatIsGone) {
  const TemporaryDirectory directory;
  const CheckpointStore store(directory / "c");
  SnapshotWriter writer(store, /*rank=*/0, /*keep=*/2);
  writer.copy("model.safetensors", {{"w", Tensor::zeros({3})}});
  writer.start({.step = 5, .run = {}, .layout = {}, .buckets = {}, .files = {}},
               {"model.safetensors", "rank-1.safetensors"});
  while (!store.written(5, "model.safetensors")) {
  }
  // Again if the writer makes a file at the same moment.
  for (std::error_code error; std::filesystem::exists(directory / "c");) {
    std::filesystem::remove_all(directory / "c", error);
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(writer.finish());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(SnapshotWriter, ItsThreadAloneHasTheLowestPriority) {
  const TemporaryDirectory directory;
  const int usual = getpriority(PRIO_PROCESS, 0);
  SnapshotWriter writer(CheckpointStore(directory / "c"), /*rank=*/0, /*keep=*/2);
  EXPECT_TRUE(writer.finish());  // the thread runs
  std::map<std::string, int> priorities;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    const auto id = static_cast<id_t>(std::stoi(task.path().filename().string()));
    priorities[name] = getpriority(PRIO_PROCESS, id);
  }
  EXPECT_EQ(priorities["brigade-saver"], 19);
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), usual);
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
