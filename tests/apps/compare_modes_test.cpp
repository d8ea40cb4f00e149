// Runs compare_modes as a user would.
#include <gmock/gmock.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using test::count;
using test::Outcome;
using testing::HasSubstr;

class CompareModes : public testing::Test {
 protected:
  Outcome run(const std::string& flags, int ranks) const {
    return test::run_program(BRIGADE_COMPARE_MODES, flags, ranks, dir_.path());
  }

  TemporaryDirectory dir_;
};

constexpr const char* kSmall =
    "--hidden 64,64 --batch 8 --bucket-mb 0.05 --rounds 2 --steps 4 --threads 1 --out run ";

TEST_F(CompareModes, PrintsOneTableAndWritesTheSameNumbers) {
  const Outcome outcome = run(kSmall + std::string("--accum 4"), 2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* mode : {"naive", "flat", "per_param", "overlap", "no_sync", "(none)"}) {
    EXPECT_EQ(count(outcome.out, std::string("\n  ") + mode + " "), 1) << mode;
  }
  EXPECT_EQ(count(outcome.out, "equal: after 4 steps: ranks bit-equal"), 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("One rank alone:"));
  const auto json = nlohmann::json::parse(test::read(dir_ / "run" / "compare.json"));
  EXPECT_EQ(json["equal"], true);
  EXPECT_EQ(json["timed_steps"], 2 * 3) << "the first step of a turn does not count";
  for (const auto& mode : json["modes"]) {
    std::array<char, 32> printed{};
    std::snprintf(printed.data(), printed.size(), "%.2f", mode["step_ms"].get<double>());
    EXPECT_THAT(outcome.out, HasSubstr(printed.data())) << mode["mode"];
  }
}

TEST_F(CompareModes, EveryModeCommunicatesAsItSays) {
  const Outcome outcome = run(kSmall + std::string("--accum 4 --json"), 3);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::map<std::string, double> collectives;
  const auto json = nlohmann::json::parse(outcome.out);
  for (const auto& mode : json["modes"]) {
    collectives[mode["mode"]] = mode["collectives_per_step"];
    EXPECT_LT(mode["difference_to_one_rank"], 1e-6) << mode["mode"];
    EXPECT_EQ(mode["ranks_equal"], true);
  }
  const int buckets = 5;  // 64 x 64 fills one by itself, hence not the 6 parameters of per_param
  EXPECT_EQ(collectives["naive"], 6 * 4);
  EXPECT_EQ(collectives["per_param"], 6 * 4);
  EXPECT_EQ(collectives["flat"], collectives["overlap"]);
  EXPECT_EQ(collectives["no_sync"], collectives["overlap"] / 4);
  EXPECT_LE(collectives["overlap"], buckets * 4);
  EXPECT_EQ(json["modes"][0]["hidden_fraction"], 0.0) << "naive hides nothing";
}

/// What one rank's picture shows, read from its trace file; times in µs.
struct Picture {
  using Spans = std::vector<std::pair<double, double>>;
  Spans steps;
  Spans comm;
  Spans operations;  // of backward: "linear 0.weight", "relu", ...
  Spans forwards;

  Picture(const std::filesystem::path& packed, int rank) {
    EXPECT_EQ(std::system(("gunzip -kf " + packed.string()).c_str()), 0);
    const auto trace =
        nlohmann::json::parse(test::read(std::filesystem::path(packed).replace_extension()));
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] != "X" || event["pid"] != rank) {
        continue;
      }
      const std::string name = event["name"];
      const std::string category = event["cat"];
      const double begin = event["ts"];
      const std::pair<double, double> span{begin, begin + event["dur"].get<double>()};
      if (category == "step") {
        steps.push_back(span);
      } else if (category == "communication") {
        comm.push_back(span);
      } else if (name.rfind("linear ", 0) == 0) {
        operations.push_back(span);
      } else if (name == "forward") {
        forwards.push_back(span);
      }
    }
  }

  /// Those of `spans` that begin within `step`.
  static Spans within(const Spans& spans, const std::pair<double, double>& step) {
    Spans result;
    for (const auto& span : spans) {
      if (span.first >= step.first && span.first < step.second) {
        result.push_back(span);
      }
    }
    return result;
  }
};

TEST_F(CompareModes, ThePicturesShowWhatTheModesAreAbout) {
  // 8 parameters in 4 buckets; a link on which communication takes about as long as computing. The
  // operations take milliseconds, so that a communication thread gets its turn even on a busy core.
  const Outcome outcome =
      run("--depth 4 --width 512 --batch 384 --bucket-mb 1.1 --rounds 1 --steps 3 --threads 1 "
          "--accum 2 "
          "--emulate-link 100,0.2 --trace --out run",
          2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("emulated link"));
  const auto picture = [&](const std::string& mode) {
    return Picture(dir_ / "run" / ("trace-" + mode + ".json.gz"), 0);
  };

  const Picture naive = picture("naive");
  ASSERT_EQ(naive.steps.size(), 2U);
  for (const auto& operation : naive.operations) {
    for (const auto& collective : naive.comm) {
      EXPECT_TRUE(collective.second <= operation.first || collective.first >= operation.second)
          << "naive: a solid block of communication, nothing computed beside it";
    }
  }

  const Picture overlap = picture("overlap");
  int interleaved = 0;
  for (const auto& operation : overlap.operations) {
    for (const auto& collective : overlap.comm) {
      interleaved += collective.first < operation.second && operation.first < collective.second;
    }
  }
  EXPECT_GT(interleaved, 0) << "overlap: backward computes while buckets travel";

  const Picture per_param = picture("per_param");
  EXPECT_EQ(per_param.comm.size(), 2U * 2 * 8) << "one message per parameter and micro-batch";
  EXPECT_LT(overlap.comm.size(), per_param.comm.size());

  const Picture no_sync = picture("no_sync");
  for (const auto& step : no_sync.steps) {
    const Picture::Spans forwards = Picture::within(no_sync.forwards, step);
    const Picture::Spans burst = Picture::within(no_sync.comm, step);
    ASSERT_EQ(forwards.size(), 2U);
    ASSERT_EQ(burst.size(), overlap.comm.size() / 4);
    EXPECT_GT(burst.front().first, forwards.back().second) << "silence, then one burst";
  }
}

TEST_F(CompareModes, ThePageHasTheNumbersOfTheTable) {
  const Outcome outcome = run(kSmall, 2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string page = test::read(dir_ / "run" / "compare.html");
  const auto json = nlohmann::json::parse(test::read(dir_ / "run" / "compare.json"));
  for (const auto& mode : json["modes"]) {
    std::array<char, 32> step{};
    std::snprintf(step.data(), step.size(), "<td>%.2f</td>", mode["step_ms"].get<double>());
    EXPECT_THAT(page, HasSubstr(step.data())) << mode["mode"];
    EXPECT_THAT(page, HasSubstr(mode["mode"].get<std::string>() + ", 2 ranks"));
  }
  EXPECT_THAT(page, testing::Not(HasSubstr("<script")));
  EXPECT_THAT(page, testing::Not(HasSubstr("http://"))) << "nothing is loaded from elsewhere";
}

TEST_F(CompareModes, ComparesAdamWithoutCryingWolf) {
  const Outcome outcome = run(kSmall + std::string("--optimizer adam"), 3);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
}

TEST_F(CompareModes, OfOneRankHasNothingToCompareAndSaysSo) {
  const Outcome outcome = run(kSmall, 0);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("mpirun -np N"));
}

TEST_F(CompareModes, RefusesModesThatCannotBeCompared) {
  const Outcome unknown = run("--modes naive,overlab", 2);
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(count(unknown.err, "did you mean overlap?"), 1) << unknown.err;
  EXPECT_EQ(run("--modes naive,naive", 0).exit_code, 2);
  EXPECT_EQ(run("--modes no_sync", 0).exit_code, 2) << "needs --accum";
  EXPECT_EQ(run("--mode naive", 0).exit_code, 2) << "train_mlp's flag";
}

}  // namespace
}  // namespace brigade
