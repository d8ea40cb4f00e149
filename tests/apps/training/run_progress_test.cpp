#include "apps/training/run_progress.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "dist/comm/single_process.h"
#include "optim/sgd.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade::apps {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr std::int64_t kSamples = 8;
constexpr std::int64_t kBatch = 4;

/// Samples that are all alike, of the class that `label` says whenever some are read.
class OneClass final : public data::Dataset {
 public:
  explicit OneClass(std::function<std::int64_t()> label) : label_(std::move(label)) {}

  std::int64_t size() const override { return kSamples; }
  std::int64_t input_width() const override { return 3; }
  std::int64_t output_width() const override { return 2; }
  bool classes() const override { return true; }
  void read(std::span<const std::int64_t> samples, const data::Batch& batch) const override {
    batch.inputs.zero();
    std::fill_n(batch.targets.data<std::int64_t>(), samples.size(), label_());
  }

 private:
  std::function<std::int64_t()> label_;
};

/// A run of `steps` steps, two of which are an epoch.
RunInfo run_of(std::int64_t steps) {
  RunInfo info;
  info.device = kCpu;
  info.shape.widths = {3, 2};
  info.geometry.batch = kBatch;
  info.steps = steps;
  info.steps_per_epoch = kSamples / kBatch;
  return info;
}

/// What a run told the program, programs, and people.
struct Told {
  RunResult result;
  std::vector<nlohmann::json> metrics;
  std::string text;
};

std::int64_t class_zero() {
  return 0;
}

/// Trains one rank on samples of class 0 and tests it on those of the class that `label` says.
Told run(const RunInfo& info, double lr, std::function<std::int64_t()> label,
         TraceSchedule trace = {}, std::optional<dist::UpdateDeadline> in_flight = {},
         std::function<std::int64_t()> train_label = class_zero) {
  const OneClass train(std::move(train_label));
  const OneClass test(std::move(label));
  dist::SingleProcessCommunicator comm(kCpu);
  const auto model = make_network(info.shape, /*seed=*/0, kCpu);
  const auto loss = make_loss("cross_entropy");
  dist::GradAverager data_parallel(model->parameters(), comm, {});
  optim::SGD optimizer(data_parallel.parameters(), {.lr = lr});
  data::DistributedSampler sampler(kSamples, info.geometry, /*seed=*/0, /*shuffle=*/false);
  const TemporaryDirectory directory;
  MetricsFile metrics(directory / "metrics.jsonl", /*before=*/"");
  const Console console(true, Console::Target::out, "never");
  Told told;
  testing::internal::CaptureStdout();
  const TrainerParts parts{.model = *model,
                           .loss = *loss,
                           .optimizer = optimizer,
                           .data_parallel = data_parallel,
                           .sampler = sampler,
                           .data = train,
                           .device = kCpu,
                           .trace = trace,
                           .in_flight = in_flight};
  Trainer trainer(parts);
  RunProgress progress(info, parts, trainer, test, {console, &metrics});
  for (std::int64_t step = 0; step < info.steps; ++step) {
    trainer.step(step);
    progress.after_step(step);
  }
  told.result = progress.finish();
  told.text = testing::internal::GetCapturedStdout();
  std::istringstream lines(test::read(directory / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    told.metrics.push_back(nlohmann::json::parse(line));
  }
  return told;
}

// With --cross-step a step begins where the last one ended, unless there was a test.
TEST(RunProgress, ATestIsNoPartOfAStep) {
  static constexpr int kSlow = 200;  // ms
  RunInfo info = run_of(8);
  info.options.eval_every = 1;
  const Told told = run(
      info, 0.1,
      [] {
        std::this_thread::sleep_for(std::chrono::milliseconds(kSlow));
        return 0;
      },
      {}, dist::UpdateDeadline::next_read);
  EXPECT_EQ(told.result.timing.measured_steps, 6);
  EXPECT_LT(told.result.timing.step_p95, kSlow / 2);
}

TEST(RunProgress, ReadingABatchCountsAsLoadingAndNotAsAStep) {
  static constexpr double kSlow = 20.0;  // ms
  const auto slowly = [] {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(kSlow));
    return 0;
  };
  const Told told = run(run_of(4), 0.1, class_zero, {}, {}, slowly);
  EXPECT_GE(told.result.timing.rank_load.at(0), kSlow);
  EXPECT_LT(told.result.timing.step_p10, kSlow);
}

TEST(RunProgress, ProfilesTheRun) {
  const Profile profile = run(run_of(8), 0.1, class_zero).result.profile.value();
  EXPECT_EQ(profile.model, "3-2");
  EXPECT_EQ(profile.ranks, 1);
  EXPECT_GT(profile.compute.forward, 0.0);
  ASSERT_THAT(profile.parameters, SizeIs(2));
  EXPECT_EQ(profile.parameters[0].name, "0.weight");
  EXPECT_EQ(profile.parameters[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(profile.parameters[0].bytes, 64U) << "its slice of a bucket";
  ASSERT_THAT(profile.compute.order, SizeIs(2));
  EXPECT_GT(profile.compute.order[0].ms, 0.0);
  EXPECT_LE(profile.compute.order[0].ms, profile.compute.order[1].ms);
  EXPECT_LE(profile.compute.order[1].ms, profile.compute.backward);
  EXPECT_TRUE(profile.all_reduce.empty());
}

TEST(RunProgress, TestsAWideNetworkInSmallBatches) {
  const auto reads_of_a_test = [](std::int64_t outputs) {
    RunInfo info = run_of(1);
    info.shape.widths = {3, outputs};
    info.options.batch = 4;
    int reads = 0;
    run(info, 0.0, [&reads] {
      ++reads;
      return 0;
    });
    return reads;
  };
  EXPECT_EQ(reads_of_a_test(2), 1) << "of all 8 samples";
  EXPECT_EQ(reads_of_a_test(1 << 14), 2) << "of 4";
  EXPECT_EQ(reads_of_a_test(1 << 17), 4) << "of half as many as in training";
}

TEST(RunProgress, TheLastLossIsThatOfTheLastStep) {
  RunInfo info = run_of(5);
  constexpr double kSmall = 0.1;
  const Told each = run(info, kSmall, class_zero);
  ASSERT_THAT(each.metrics, SizeIs(5));
  info.log_every = 3;
  info.options.eval_every = 0;
  const Told some = run(info, kSmall, class_zero);
  ASSERT_THAT(some.metrics, SizeIs(3)) << "after steps 1, 3 and 5";
  EXPECT_LT(each.metrics[4]["loss"], each.metrics[3]["loss"]) << "they must differ";
  EXPECT_EQ(some.result.loss_last, each.metrics[4]["loss"]);
  EXPECT_EQ(some.metrics[2]["loss"], each.metrics[4]["loss"]);
  EXPECT_EQ(some.result.loss_first, each.metrics[0]["loss"]);
}

TEST(RunProgress, TheBestAccuracyMayNotBeTheLast) {
  std::int64_t tests = 0;
  constexpr double kLearnsInAStep = 10.0;
  // By the first test the model says 0, which is right then and wrong in the second one.
  const Told told = run(run_of(4), kLearnsInAStep, [&tests] { return tests++; });
  EXPECT_EQ(tests, 2);
  EXPECT_EQ(told.metrics[1]["accuracy"], 1.0);
  EXPECT_EQ(told.result.test.accuracy, 0.0);
  EXPECT_EQ(told.result.best_accuracy, 1.0);
}

TEST(RunProgress, TimeInTestsIsNoTrainingAndTheEtaIsWhatIsLeft) {
  constexpr double kTestSeconds = 1.1;
  double asleep = kTestSeconds;  // in the first test only
  const Told told = run(run_of(4), 0.1, [&asleep] {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::exchange(asleep, 0.0)));
    return 0;
  });
  const double training = 4.0 * kBatch / told.result.samples_per_second_overall;
  EXPECT_GT(training, 0.0);
  EXPECT_LE(training, told.result.seconds - kTestSeconds);

  // The test after step 2 is over when step 3 is reported.
  const std::regex eta("step 3/4 .* ETA 00:00:(\\d+)\n");
  std::smatch found;
  ASSERT_TRUE(std::regex_search(told.text, found, eta)) << told.text;
  const double seconds = told.metrics[2]["seconds"];
  EXPECT_GT(seconds, 1.0) << "or rounding hides the difference between a step and the whole run";
  EXPECT_EQ(std::stol(found[1]), std::llround(seconds / 3.0)) << told.text;
}

std::vector<std::string> names_of(const StepTrace& step) {
  std::vector<std::string> names;
  for (const ScopeTimes& scope : step.spans.scopes) {
    names.push_back(scope.name);
  }
  return names;
}

TEST(RunProgress, ATestBetweenRecordedStepsIsNotRecorded) {
  RunInfo info = run_of(4);
  info.options.trace = true;
  const Told told = run(info, 0.1, class_zero, {.skip = 1, .steps = 2});
  EXPECT_THAT(told.text, HasSubstr("\nafter step 2 (epoch 1): test loss "));
  ASSERT_THAT(told.result.trace.ranks, SizeIs(1));
  const std::vector<StepTrace>& steps = told.result.trace.ranks[0].steps;
  ASSERT_THAT(steps, SizeIs(2));
  EXPECT_EQ(steps[0].step, 2);
  EXPECT_EQ(steps[1].step, 3);
  EXPECT_THAT(names_of(steps[0]), testing::Contains("layer 0 Linear(3, 2)"));
  EXPECT_EQ(names_of(steps[1]), names_of(steps[0]));
}

}  // namespace
}  // namespace brigade::apps
