#include "apps/report/summary.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/io/atomic_file.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade::apps {
namespace {

// No two of these numbers are alike, so that none can stand in another one's place.
TEST(Summary, EveryTimeStandsUnderItsName) {
  RunResult result;
  result.timing = {.measured_steps = 3,
                   .slowest_rank = 2,
                   .step = 101,
                   .step_p10 = 102,
                   .step_p90 = 103,
                   .step_p95 = 104,
                   .samples_per_second = 105,
                   .median = {.step = 106,
                              .wait = 107,
                              .forward = 108,
                              .backward = 109,
                              .optimizer = 110,
                              .comm = 111,
                              .hidden = 112,
                              .exposed = 113},
                   .rank_compute = {114, 115, 116},
                   .rank_load = {1, 2, 3},
                   .straggler = Straggler{.rank = 2,
                                          .reason = Straggler::Reason::data,
                                          .ms = 118,
                                          .others = 119,
                                          .share = 0.75},
                   .communicates = true,
                   .hidden_fraction = 0.25,
                   .collectives = {}};
  result.samples_per_second_overall = 117;
  result.seconds = 118;
  const auto json = nlohmann::json::parse(summary_json({}, result));
  const nlohmann::json expected{
      {"measured_steps", 3},
      {"slowest_rank", 2},
      {"step_ms", 101},
      {"step_ms_p10", 102},
      {"step_ms_p90", 103},
      {"step_ms_p95", 104},
      {"samples_per_second", 105},
      {"wait_ms", 107},
      {"forward_ms", 108},
      {"backward_ms", 109},
      {"optimizer_ms", 110},
      {"comm_ms", 111},
      {"hidden_ms", 112},
      {"exposed_ms", 113},
      {"rank_compute_ms", {114, 115, 116}},
      {"rank_load_ms", {1, 2, 3}},
      {"straggler",
       {{"rank", 2}, {"reason", "data"}, {"ms", 118}, {"others_ms", 119}, {"share", 0.75}}},
      {"compute_fraction", -6.0 / 101},
      {"hidden_fraction", 0.25},
      {"samples_per_second_overall", 117},
      {"seconds", 118}};
  for (const auto& [name, value] : expected.items()) {
    EXPECT_EQ(json[name], value) << name;
  }
}

TEST(Summary, AStragglerHasItsReason) {
  using Reason = Straggler::Reason;
  const auto name_of = [](Reason reason) {
    RunResult result;
    result.timing.straggler = Straggler{.reason = reason};
    return nlohmann::json::parse(summary_json({}, result))["straggler"]["reason"];
  };
  EXPECT_EQ(name_of(Reason::compute), "compute");
  EXPECT_EQ(name_of(Reason::data), "data");
  EXPECT_EQ(name_of(Reason::network), "network");
}

TEST(Summary, EveryResultStandsUnderItsName) {
  RunResult result;
  result.loss_first = 1.5;
  result.loss_last = 2.5;
  result.test = {.loss = 3.5, .accuracy = 0.5};
  result.best_accuracy = 0.75;
  result.traffic.collectives = 4;
  result.traffic.bytes_reduced = 5;
  result.traffic.bytes_sent = 6;
  const auto json = nlohmann::json::parse(summary_json({}, result));
  const nlohmann::json expected{{"loss_first", 1.5},
                                {"loss_last", 2.5},
                                {"test_loss", 3.5},
                                {"accuracy", 0.5},
                                {"accuracy_best", 0.75},
                                {"collectives_per_step", 4},
                                {"bytes_reduced_per_step", 5},
                                {"bytes_sent_per_step", 6}};
  for (const auto& [name, value] : expected.items()) {
    EXPECT_EQ(json[name], value) << name;
  }
}

// Modes that send in another order than the buckets' would show one bucket's times as another's.
TEST(Summary, ABucketHasTimesWhereTheyAreItsOwn) {
  const auto has_times = [](const std::string& mode, bool cross_step, std::size_t bytes) {
    RunInfo info;
    info.options.mode = mode;
    info.options.cross_step = cross_step;
    RunResult result;
    result.buckets = {{.label = "w", .bytes = 100, .parameters = {"w"}}};
    result.timing.collectives = {{1, 2, 6, bytes}};
    const nlohmann::json bucket = nlohmann::json::parse(summary_json(info, result))["buckets"][0];
    if (bucket.contains("ready_ms")) {
      EXPECT_EQ(bucket["ready_ms"], 1);
      EXPECT_EQ(bucket["begin_ms"], 2);
      EXPECT_EQ(bucket["end_ms"], 6);
    }
    return bucket.contains("ready_ms");
  };
  EXPECT_TRUE(has_times("overlap", false, 100));
  EXPECT_FALSE(has_times("overlap", false, 101));
  EXPECT_FALSE(has_times("overlap", true, 100));
  EXPECT_FALSE(has_times("naive", false, 100));
}

/// While it lives no file of this process grows beyond `bytes`: as on a full disk, a write stops in
/// the middle.
class LimitedFileSize {
 public:
  explicit LimitedFileSize(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~LimitedFileSize() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  LimitedFileSize(const LimitedFileSize&) = delete;
  LimitedFileSize& operator=(const LimitedFileSize&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(Metrics, EndWithAWholeLineAlsoOnAFullDisk) {
  RunInfo info;
  info.steps_per_epoch = 1;
  const TemporaryDirectory directory;
  MetricsFile metrics(directory / "metrics.jsonl", /*before=*/"");
  int written = 0;
  {
    const LimitedFileSize limit(1000);
    while (metrics.write(info, Progress(), std::nullopt)) {
      ++written;
    }
    EXPECT_TRUE(metrics.write(info, Progress(), std::nullopt)) << "the first one alone is told";
  }
  EXPECT_GE(written, 2);
  EXPECT_THROW(metrics.check(), Error);
  const std::string text = test::read(directory / "metrics.jsonl");
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(test::count(text, "\n"), written);
  EXPECT_EQ(test::count(text, "}\n"), written);
}

TEST(Metrics, EveryNumberOfAStepStandsUnderItsName) {
  RunInfo info;
  info.steps_per_epoch = 4;
  const Progress progress{
      .step = 6,
      .loss = 2.5,
      .times = {.step = 1600,
                .wait = 101,
                .forward = 102,
                .backward = 103,
                .optimizer = 104,
                .comm = 105,
                .hidden = 106,
                .exposed = 107},
      .samples_per_second = 108,
      .seconds = 109,
      .eta_seconds = 110,
      .difference = dist::RankDifference{.value = 3.5, .parameter = "0.weight"}};
  const TemporaryDirectory directory;
  MetricsFile metrics(directory / "metrics.jsonl", /*before=*/"");
  ASSERT_TRUE(metrics.write(info, progress, Evaluation{.loss = 4.5, .accuracy = 0.25}));
  const auto json = nlohmann::json::parse(test::read(directory / "metrics.jsonl"));
  const nlohmann::json expected{{"step", 6},
                                {"epoch", 1.5},
                                {"loss", 2.5},
                                {"seconds", 109},
                                {"step_ms", 1600},
                                {"forward_ms", 102},
                                {"backward_ms", 103},
                                {"optimizer_ms", 104},
                                {"comm_ms", 105},
                                {"exposed_ms", 107},
                                {"samples_per_second", 108},
                                {"largest_rank_difference", 3.5},
                                {"test_loss", 4.5},
                                {"bits_per_byte", nullptr},
                                {"accuracy", 0.25}};
  EXPECT_EQ(json, expected);
}

TEST(MetricsFile, IsKeptUpToALineThatIsNoRecordOfIt) {
  const TemporaryDirectory directory;
  const auto kept = [&](const std::string& text) {
    write_file_atomically(directory / "metrics.jsonl", text);
    return metrics_until(directory / "metrics.jsonl", 2);
  };
  const std::string good = "{\"step\":1}\n{\"step\":2}\n";
  EXPECT_EQ(kept(good), good);
  for (const char* next :
       {"{\"step\":3}\n", "{\"step\":\"x\"}\n", "{\"step\":-1}\n", "{\"step\":1.5}\n",
        "{\"step\":18446744073709551615}\n", "{}\n", "[1]\n", "1\n", "{\"st"}) {
    EXPECT_EQ(kept(good + next), good) << next;
  }
}

}  // namespace
}  // namespace brigade::apps
