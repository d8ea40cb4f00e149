// Runs the program as a user would, alone and under mpirun.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>

#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using test::count;
using test::kTiny;
using test::Outcome;
using test::read;

class TrainMlp : public ::testing::Test {
 protected:
  /// Runs in a directory of its own; 0 ranks: without mpirun.
  Outcome run(const std::string& flags, int ranks = 0) const {
    return test::run_program(BRIGADE_TRAIN_MLP, flags, ranks, dir_.path());
  }

  TemporaryDirectory dir_;
};

TEST_F(TrainMlp, HelpIsShortAndGoesToStdout) {
  const Outcome help = run("--help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_LE(count(help.out, "\n"), 83);
  EXPECT_EQ(help.err, "");
  EXPECT_EQ(run("--help", 2).out, help.out);  // once, not once per rank
}

TEST_F(TrainMlp, ASeedIsThatOfTheWeightsAndOfTheOrder) {
  const auto first_loss = [this](const char* flags) {
    constexpr const char* kData = "--data fashion-mnist --data-dir " BRIGADE_TEST_DATA "/tiny ";
    return nlohmann::json::parse(
        run(std::string(kTiny) + kData + "--json " + flags).out)["loss_first"];
  };
  EXPECT_EQ(first_loss("--seed 1"), first_loss("--seed 1"));
  EXPECT_NE(first_loss("--seed 1"), first_loss("--seed 1 --no-shuffle"));
  EXPECT_NE(first_loss("--seed 2 --no-shuffle"), first_loss("--seed 1 --no-shuffle"));
}

TEST_F(TrainMlp, MoreThreadsThanTheLibraryIsBuiltForAreRefused) {
  const Outcome outcome = run(std::string(kTiny) + "--threads 4096", 2);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(count(outcome.err, "which this OpenBLAS is built for, got 4096"), 1) << outcome.err;
}

TEST_F(TrainMlp, AnUnknownFlagIsReportedOnceForAllRanks) {
  const Outcome outcome = run("--bacth 4", 2);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(count(outcome.err, "unknown flag --bacth; did you mean --batch?"), 1) << outcome.err;
}

TEST_F(TrainMlp, RanksWithDifferentFlagsAreRefusedInsteadOfWaitingForEver) {
  const std::string second = std::string(" : -np 1 " BRIGADE_TRAIN_MLP " ") + kTiny;
  const Outcome steps = run(kTiny + ("--steps 4" + second) + "--steps 5", 1);
  EXPECT_EQ(steps.exit_code, 3);
  EXPECT_EQ(count(steps.err, "rank 0 has 'steps = 4', rank 1 has 'steps = 5'"), 1) << steps.err;
  EXPECT_LT(steps.seconds, 20.0) << "it must not wait for ever";
  const Outcome mode = run(kTiny + ("--accum 2 --mode no_sync" + second) + "--accum 2", 1);
  EXPECT_EQ(count(mode.err, "rank 0 has 'mode = \"no_sync\"', rank 1 has '# mode'"), 1) << mode.err;
  const Outcome lr = run(kTiny + ("--lr 0.1" + second) + "--lr 0.1000001", 1);
  EXPECT_EQ(count(lr.err, "rank 0 has 'lr = 0.1', rank 1 has 'lr = 0.1000001'"), 1) << lr.err;
}

TEST_F(TrainMlp, AMistakeOfOneRankAloneIsReportedByThatRank) {
  const Outcome outcome =
      run(kTiny + std::string(" : -np 1 " BRIGADE_TRAIN_MLP " ") + "--bogus 4", 1);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(count(outcome.err, "[rank 1] train_mlp: unknown flag --bogus"), 1) << outcome.err;
}

TEST_F(TrainMlp, APipeIsNotWaitedFor) {
  ASSERT_EQ(std::system(("mkfifo " + (dir_ / "pipe").string()).c_str()), 0);
  const Outcome outcome = run(std::string(kTiny) + "--init pipe");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("not a regular file"));
}

TEST_F(TrainMlp, MissingDataNamesThePackageAndLeavesNothingBehind) {
  const Outcome outcome = run("--data fashion-mnist --data-dir nowhere --out result", 2);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(count(outcome.err, "apt-get install dataset-fashion-mnist"), 1) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "result"));
}

TEST_F(TrainMlp, BadInitialWeightsEndAllRanksWithinSeconds) {
  std::ofstream(dir_ / "bad.safetensors") << "this is not a safetensors file";
  const Outcome outcome = run(std::string(kTiny) + "--init bad.safetensors --out result", 2);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("bad.safetensors"));
  EXPECT_LT(outcome.seconds, 10.0);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "result"));
}

TEST_F(TrainMlp, JsonIsTheOnlyThingOnStdout) {
  const Outcome outcome = run(std::string(kTiny) + "--json --mode no_sync --accum 2", 2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  for (const char* key : {"version",
                          "mode",
                          "world_size",
                          "device",
                          "comm",
                          "parameters",
                          "global_batch",
                          "steps",
                          "loss_first",
                          "loss_last",
                          "accuracy",
                          "samples_per_second",
                          "collectives_per_step",
                          "bytes_reduced_per_step",
                          "params_hash",
                          "params_equal",
                          "peak_memory_bytes",
                          "step_ms",
                          "step_ms_p95",
                          "forward_ms",
                          "backward_ms",
                          "comm_ms",
                          "exposed_ms",
                          "optimizer_ms",
                          "hidden_fraction",
                          "buckets"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["world_size"], 2);
  EXPECT_EQ(json["global_batch"], 16);
  EXPECT_EQ(json["collectives_per_step"], 1);
  EXPECT_EQ(json["params_equal"], true);
  EXPECT_TRUE(json["accuracy"].is_null());  // numbers are predicted, not classes
  EXPECT_EQ(json, nlohmann::json::parse(read(dir_ / "runs" / "1" / "summary.json")));
  EXPECT_THAT(outcome.err, HasSubstr("parameters equal on all ranks"));
}

TEST_F(TrainMlp, TheTimesOfACommunicatingRunBelongTogether) {
  const std::string flags = "--hidden 256,256 --steps 20 --threads 1 --json --mode ";
  for (const std::string mode : {"naive", "overlap"}) {
    const Outcome outcome = run(flags + mode, 2);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const nlohmann::json json = nlohmann::json::parse(outcome.out);
    const double comm = json["comm_ms"];
    const double hidden = json["hidden_ms"];
    EXPECT_GT(comm, 0.0) << mode;
    EXPECT_GE(json["step_ms"], comm) << mode;
    EXPECT_GT(json["backward_ms"], json["optimizer_ms"]) << mode;
    EXPECT_GT(json["samples_per_second"], json["samples_per_second_overall"]) << mode;
    if (mode == "naive") {
      EXPECT_EQ(hidden, 0.0) << "a blocking all-reduce hides nothing";
    } else {
      EXPECT_LE(hidden, comm);
      EXPECT_LT(json["buckets"][0]["begin_ms"], json["buckets"][0]["end_ms"]);
    }
  }
}

/// Hidden share of communication of one rank, from nothing but the trace file.
double hidden_fraction(const nlohmann::json& trace, int rank) {
  using Span = std::pair<double, double>;
  std::map<std::string, std::vector<Span>> spans;  // by category
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["pid"] == rank) {
      const double begin = event["ts"];
      spans[event["cat"]].emplace_back(begin, begin + event["dur"].get<double>());
    }
  }
  const auto overlap = [](const Span& a, const Span& b) {
    return std::max(0.0, std::min(a.second, b.second) - std::max(a.first, b.first));
  };
  std::vector<double> comm;
  std::vector<double> exposed;
  for (const Span& step : spans["step"]) {
    comm.push_back(0.0);
    exposed.push_back(0.0);
    for (const Span& collective : spans["communication"]) {  // one stream: they never overlap
      if (overlap(collective, step) > 0.0) {
        comm.back() += collective.second - collective.first;
        for (const Span& wait : spans["wait"]) {
          exposed.back() += overlap(collective, wait);
        }
      }
    }
  }
  EXPECT_EQ(comm.size(), 18U);
  return 1.0 - std::accumulate(exposed.begin(), exposed.end(), 0.0) /
                   std::accumulate(comm.begin(), comm.end(), 0.0);
}

TEST_F(TrainMlp, TheTraceFileContainsTheHiddenFractionOfTheSummary) {
  const Outcome outcome = run(
      "--hidden 256,256 --bucket-mb 0.3 --threads 1 --json --out run --steps 23 --warmup 5 --trace "
      "--trace-steps 18",
      2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json summary = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(summary["measured_steps"], 18);
  ASSERT_EQ(std::system(("gunzip -f " + (dir_ / "run" / "trace.json.gz").string()).c_str()), 0);
  const nlohmann::json trace = nlohmann::json::parse(read(dir_ / "run" / "trace.json"));
  EXPECT_NEAR(hidden_fraction(trace, summary["slowest_rank"]),
              summary["hidden_fraction"].get<double>(), 1e-3);
}

TEST_F(TrainMlp, AnEmulatedLinkIsNamedWhereverItsTimesAre) {
  const Outcome outcome = run(std::string(kTiny) + "--emulate-link 500,1 --mode per_param", 2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(", emulated link 500 us, 1 GB/s\n"));
  EXPECT_THAT(outcome.out, HasSubstr("The link is emulated"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("share this host's memory")));
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" ms/step") != std::string::npos || line.rfind("step", 0) == 0 ||
        line.rfind("communication", 0) == 0 || line.rfind("speed", 0) == 0 ||
        line.rfind("top operations", 0) == 0) {
      EXPECT_THAT(line, HasSubstr("(emulated link)"));
    }
  }
  const auto json = nlohmann::json::parse(read(dir_ / "runs" / "1" / "summary.json"));
  EXPECT_THAT(json["comm"].get<std::string>(), HasSubstr("emulated link 500 us, 1 GB/s"));
  EXPECT_EQ(json["emulated_link"], (nlohmann::json{{"alpha_us", 500.0}, {"gigabytes_per_s", 1.0}}));
  EXPECT_GE(json["comm_ms"], 6 * 1.0) << "six parameters, 2 x 0.5 ms of latency each";

  const Outcome real = run(std::string(kTiny) + "--json", 2);
  EXPECT_THAT(real.err, Not(HasSubstr("emulated")));
  EXPECT_TRUE(nlohmann::json::parse(real.out)["emulated_link"].is_null());
}

TEST_F(TrainMlp, RunsAreNumberedAndLogged) {
  ASSERT_EQ(run(std::string(kTiny) + "--log-every 2").exit_code, 0);
  const Outcome second = run(std::string(kTiny) + "--log-every 2");
  EXPECT_THAT(second.out, HasSubstr("runs/2/summary.json"));
  EXPECT_THAT(second.out, Not(HasSubstr("\033")));  // a file gets no colours
  EXPECT_THAT(second.out, Not(HasSubstr("\r")));
  std::ifstream metrics(dir_ / "runs" / "2" / "metrics.jsonl");
  std::vector<int> steps;
  for (std::string line; std::getline(metrics, line);) {
    steps.push_back(nlohmann::json::parse(line)["step"]);
  }
  EXPECT_EQ(steps, (std::vector<int>{1, 2, 4, 6}));
}

TEST_F(TrainMlp, SavedWeightsContinueTheRun) {
  const Outcome first = run(std::string(kTiny) + "--save w.safetensors --json");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  // Steps too small to change a bit: the second run ends with the weights that it began with.
  const Outcome next = run(std::string(kTiny) + "--init w.safetensors --lr 1e-30 --json", 2);
  ASSERT_EQ(next.exit_code, 0) << next.err;
  EXPECT_EQ(nlohmann::json::parse(next.out)["params_hash"],
            nlohmann::json::parse(first.out)["params_hash"]);
  EXPECT_EQ(run("--hidden 9 --init w.safetensors").exit_code, 2);
}

TEST_F(TrainMlp, EveryModeEndsWithTheSameWeights) {
  std::vector<std::string> hashes;
  for (const char* mode : {"naive", "flat", "per_param", "overlap"}) {
    const Outcome outcome = run(std::string(kTiny) + "--json --mode " + mode, 2);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    hashes.push_back(nlohmann::json::parse(outcome.out)["params_hash"]);
  }
  EXPECT_EQ(std::count(hashes.begin(), hashes.end(), hashes.front()), 4);
}

TEST_F(TrainMlp, WithoutSynchronisationTheRanksAreSeenToDriftApart) {
  const Outcome outcome =
      run(std::string(kTiny) + "--no-all-reduce --out run --log-every 1 --no-shuffle", 2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.out, "  ranks differ by "), 6);
  EXPECT_THAT(outcome.out,
              HasSubstr("parameters differ between the ranks because of --no-all-reduce: "
                        "largest difference "));
  EXPECT_THAT(outcome.out, Not(HasSubstr("parameters equal")));
  std::ifstream metrics(dir_ / "run" / "metrics.jsonl");
  std::vector<double> differences;
  for (std::string line; std::getline(metrics, line);) {
    differences.push_back(nlohmann::json::parse(line)["largest_rank_difference"]);
  }
  ASSERT_EQ(differences.size(), 6U);
  EXPECT_GT(differences.front(), 0.0);
  EXPECT_GT(differences.back(), differences.front());
  const auto summary = nlohmann::json::parse(read(dir_ / "run" / "summary.json"));
  EXPECT_EQ(summary["largest_rank_difference"], differences.back());
  EXPECT_EQ(summary["collectives_per_step"], 0);
  EXPECT_EQ(summary["params_equal"], false);
}

TEST_F(TrainMlp, ALastBatchSmallerThanTheNumberOfRanksIsMirroredDroppedOrPadded) {
  // 3 ranks of 4: 25 samples leave one for the third step of an epoch.
  const std::string flags = "--hidden 8 --epochs 2 --batch 4 --train-samples 25 --json --uneven ";
  const auto steps = [&](const char* uneven) {
    const Outcome outcome = run(flags + uneven, 3);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return nlohmann::json::parse(outcome.out)["steps"].get<int>();
  };
  EXPECT_EQ(steps("join"), 6);
  EXPECT_EQ(steps("drop"), 4);
  EXPECT_EQ(steps("pad"), 6);
}

TEST_F(TrainMlp, WithoutSynchronisationARankWithoutSamplesSitsTheStepOut) {
  // As above; the ranks that have no sample of the third step have no gradient to step on either.
  const Outcome outcome =
      run("--hidden 8 --epochs 2 --batch 4 --train-samples 25 --no-all-reduce --json", 3);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["steps"], 6);
}

TEST_F(TrainMlp, ClippedGradientsMakeShortSteps) {
  // The step is at most lr · norm, so the loss can hardly move.
  const std::string flags = std::string(kTiny) + "--json --lr 1 --clip-norm ";
  const auto progress = [&](const char* norm) {
    const auto json = nlohmann::json::parse(run(flags + norm, 2).out);
    return json["loss_first"].get<double>() - json["loss_last"].get<double>();
  };
  EXPECT_LT(std::abs(progress("1e-6")), 1e-4 + std::abs(progress("1e-9")));
  EXPECT_GT(std::abs(progress("1e6") - progress("1e-9")), 1e-3);
}

TEST_F(TrainMlp, DivergenceEndsTheRunWithAdvice) {
  const Outcome outcome = run("--hidden 8 --steps 50 --lr 1e30", 2);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("lower --lr"));
}

TEST_F(TrainMlp, WeightsThatTheLastStepHasSpoiltAreNotSaved) {
  const Outcome outcome = run("--hidden none --steps 1 --lr 1e300 --save w.safetensors");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("test: expected a finite loss, got "));
  EXPECT_FALSE(std::filesystem::exists("w.safetensors"));
}

}  // namespace
}  // namespace brigade
