// Every fault of --inject, as a user would see it: how the job ends, after how long, in which line.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "core/error.h"
#include "tests/support/environment.h"
#include "tests/support/fake_gdb.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using test::count;
using test::count_reports;
using test::kTiny;
using test::Outcome;

/// What the failure lab promises; without it most of these would wait for ever.
constexpr double kSeconds = 20.0;

Outcome inject(const std::string& fault, int ranks = 2) {
  const TemporaryDirectory directory;
  return test::run_program(BRIGADE_TRAIN_MLP, kTiny + ("--inject " + fault), ranks,
                           directory.path());
}

struct Case {
  const char* name;
  const char* fault;
  int ranks;
  int exit_code;
  const char* line;  ///< the beginning of the only line of a rank
};

class FailureLab : public ::testing::TestWithParam<Case> {};

TEST_P(FailureLab, EndsInOneLineThatSaysWhatToDo) {
  const Case& expected = GetParam();
  const Outcome outcome = inject(expected.fault, expected.ranks);
  EXPECT_EQ(outcome.exit_code, expected.exit_code);
  const auto slow = count(outcome.err, "is the slowest in");  // on a busy machine a rank may be
  EXPECT_EQ(count_reports(outcome.err) - slow, 1) << outcome.err;
  EXPECT_EQ(count(outcome.err, expected.line), 1) << outcome.err;
  EXPECT_LT(outcome.seconds, kSeconds);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, FailureLab,
    ::testing::Values(
        Case{"SkipParam", "skip_param", 2, 1,
             "[rank 0] data parallel: 1 of 6 parameters got no gradient in this backward on rank "
             "1: '0.weight'; the loss must depend on every parameter"},
        Case{"SkipParamNamed", "skip_param:rank=0,name=2.bias", 2, 1,
             "[rank 0] data parallel: 1 of 6 parameters got no gradient in this backward on rank "
             "0: '2.bias'; the loss must depend on every parameter"},
        Case{"SkipParamNaive", "skip_param --mode naive", 3, 1,
             "[rank 0] data parallel: 1 of 6 parameters got no gradient in this backward on rank "
             "1:"},
        Case{"SkipParamNoSync", "skip_param --mode no_sync --accum 2", 2, 1,
             "[rank 0] data parallel: 1 of 6 parameters got no gradient in this backward on rank "
             "1:"},
        Case{"SwapBuckets", "swap_buckets", 2, 3,
             "[rank 0] data parallel: the ranks disagree: rank 0 has 'bucket 0: 4.weight', rank 1 "
             "has 'bucket 0: 0.bias'; start every rank with the same program and flags"},
        Case{"SwapBucketsPerParam", "swap_buckets:rank=2 --mode per_param", 3, 3,
             "[rank 0] data parallel: the ranks disagree: rank 0 has 'bucket 0: 4.weight', rank 2 "
             "has 'bucket 0: 0.bias'"},
        Case{"OtherSeed", "other_seed", 2, 3,
             "[rank 0] data parallel: parameter '0.weight' of rank 1 differs from rank 0's"},
        Case{"BitFlip", "bit_flip:rank=2", 3, 3,
             "[rank 0] data parallel: parameter '0.weight' of rank 2 differs from rank 0's: "
             "largest difference 0."},
        Case{"BitFlipUnderTheNextForward", "bit_flip --cross-step", 2, 3,
             "[rank 0] data parallel: parameter '0.weight' of rank 1 differs from rank 0's: "
             "largest difference 0."},
        Case{"Stop", "stop --stall-warn 0 --timeout 3", 3, 5,
             "[rank 0] watch: rank 1 does not answer for 3 s (stopped, or the host hangs or cannot "
             "be reached), last seen in"},
        Case{"StopOfRankZero", "stop:rank=0 --stall-warn 0 --timeout 3 --comm ring", 3, 5,
             "[rank 1] watch: rank 0 does not answer for 3 s"},
        Case{"Spin", "spin --stall-warn 0 --timeout 2", 3, 5,
             "[rank 0] watch: rank 1 has not reached bucket_0 (4.weight, 4.bias, 2.weight, 2.bias, "
             "0.weight, 0.bias) of step 3; it is in forward for 2 s; ranks 0 and 2 wait; the job "
             "ends"},
        Case{"SpinNaive", "spin --mode naive --comm mpi --stall-warn 0 --timeout 2", 2, 5,
             "[rank 0] watch: rank 1 has not reached 0.weight of step 3; it is in forward for 2 s; "
             "rank 0 waits; the job ends"},
        Case{"Nan", "nan", 2, 1,
             "[rank 0] loss: expected a finite number, got nan in step 3 on rank 1, while other "
             "ranks' are finite: look for NaN or inf in that rank's data"},
        Case{"NanInTheFirstOfTwoMicroBatches", "nan:step=2 --accum 2 --log-every 6", 2, 1,
             "[rank 0] loss: expected a finite number, got nan in step 2 on rank 1, while other"},
        Case{"NanSeenBeforeItTravels", "nan --check-finite --comm-hook bf16", 2, 1,
             "[rank 1] finite check: expected finite gradients, got NaN or inf in step 3, bucket "
             "'bucket_0', parameter '4.bias': look at this rank's data"},
        Case{"NanSeenBeforeItTravelsNaive", "nan:step=2 --check-finite --mode naive", 2, 1,
             "[rank 1] finite check: expected finite gradients, got NaN or inf in step 2, bucket "
             "'0.weight', parameter '0.weight'"},
        Case{"WireFlip", "wire_flip --check-reduce", 3, 3,
             "[rank 0] check-reduce: bucket_0 (4.weight, 4.bias, 2.weight, 2.bias, 0.weight, "
             "0.bias) of step 3: the ranks have different sums; wrong is that of rank 1 (off by"},
        Case{"WireFlipNaive", "wire_flip:step=2 --check-reduce --mode naive --comm ring", 2, 3,
             "[rank 0] check-reduce: 0.weight of step 2: the ranks have different sums; wrong is "
             "that of rank 1 (off by"},
        Case{"WireFlipOnTheWayIn", "wire_flip:rank=2,in=1 --check-reduce --comm shared", 3, 3,
             "[rank 0] check-reduce: bucket_0 (4.weight, 4.bias, 2.weight, 2.bias, 0.weight, "
             "0.bias) of step 3: the sum over the ranks is off by"},
        Case{"WireFlipCrossStep", "wire_flip --check-reduce --cross-step", 2, 3,
             "[rank 0] check-reduce: "},
        Case{"WireFlipHalf", "wire_flip:in=1 --check-reduce --comm-hook bf16", 2, 3,
             "[rank 0] check-reduce: bucket_0 (4.weight, 4.bias, 2.weight, 2.bias, 0.weight, "
             "0.bias) of step 3: the sum over the ranks is off by"},
        Case{"WireFlipPowerSgd", "wire_flip --check-reduce --comm-hook powersgd:rank=1", 2, 3,
             "[rank 0] check-reduce: bucket_0 (4.weight, 4.bias, 2.weight, 2.bias, 0.weight, "
             "0.bias) of step 3: the ranks have different sums; whose is wrong cannot be told, as "
             "the hook's result is not the sum"},
        Case{"BitFlipSeenAfterItsStep", "bit_flip:step=4 --verify-every 2 --cross-step", 2, 3,
             "[rank 0] after step 4: data parallel: parameter '0.weight' of rank 1 differs from "
             "rank 0's"}),
    [](const auto& test) { return std::string(test.param.name); });

/// What stall.json says after a rank got stuck, and stderr. mpirun would put its own folder first
/// in PATH, so FakeGdb would not be found.
std::pair<std::string, std::string> stall_report(const std::string& fault, int timeout) {
  const TemporaryDirectory directory;
  const std::string flags =
      fmt::format("{}--out run --stall-warn 0 --timeout {} --inject {}", kTiny, timeout, fault);
  const std::string program = fmt::format("env PATH={} {}", std::getenv("PATH"), BRIGADE_TRAIN_MLP);
  const Outcome outcome = test::run_program(program, flags, 2, directory.path());
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_LT(outcome.seconds, timeout + kSeconds);
  return {test::read(directory.path() / "run" / "stall.json"), outcome.err};
}

TEST(FailureLab, TheReportOfAStallSaysWhatTheThreadsDo) {
  const bool has_gdb = std::system("command -v gdb >/dev/null") == 0;
  for (const char* fault : {"spin", "spin:rank=0", "stop"}) {
    std::string report;
    for (int tries = 0; tries == 0 || (tries < 3 && count(report, "anything yet") > 0); ++tries) {
      report = stall_report(fault, 5).first;
    }
    EXPECT_THAT(report, HasSubstr(has_gdb ? "FaultyModel::forward" : "gdb is not installed"))
        << fault;
  }
}

// gdb is started in the second half of the time.
TEST(FailureLab, ARankThatGdbLooksAtForLongIsNotTakenForStopped) {
  const test::FakeGdb gdb("shift $(($# - 1)); kill -STOP $1; sleep 4");
  const auto [report, line] = stall_report("spin", 6);
  EXPECT_EQ(count(line, "[rank 0] watch: rank 1 has not reached bucket_0"), 1) << line;
  EXPECT_THAT(report, HasSubstr("gdb has not said anything yet"));
}

TEST(FailureLab, AStoppedRankIsSilentAlsoWhileGdbLooks) {
  const test::FakeGdb gdb("sleep 5");
  EXPECT_EQ(count(stall_report("stop", 3).second, "[rank 0] watch: rank 1 does not answer for 3 s"),
            1);
}

TEST(FailureLab, ARankThatHadGdbLookAtItselfForLongStillEndsTheJobInTime) {
  const test::FakeGdb gdb("shift $(($# - 1)); echo '#0'; kill -STOP $1; sleep 2.5; kill -CONT $1");
  const auto [report, line] = stall_report("spin:rank=0", 8);
  EXPECT_EQ(count(line, "[rank 0] watch: rank 0 has not reached bucket_0"), 1) << line;
  EXPECT_THAT(report, HasSubstr("#0"));
}

TEST(FailureLab, AKilledRankIsNamedByMpirunAlone) {
  for (const char* rank : {"0", "1"}) {
    const Outcome outcome = inject(std::string("kill:rank=") + rank);
    EXPECT_EQ(outcome.exit_code, 137);
    EXPECT_EQ(count(outcome.err, std::string("noticed that process rank ") + rank), 1)
        << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("signal 9 (Killed)"));
    EXPECT_EQ(count_reports(outcome.err), 0) << outcome.err;
    EXPECT_LT(outcome.seconds, kSeconds);
  }
}

TEST(FailureLab, ASlowRankIsNamedAtTheEnd) {
  const Outcome outcome = inject("slow:rank=1,ms=30");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(count_reports(outcome.err), 1) << outcome.err;
  EXPECT_EQ(count(outcome.err, "[rank 0] warning: rank 1 is the slowest in "), 1) << outcome.err;
  EXPECT_EQ(count(outcome.err, " % of the steps: it computes "), 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("parameters equal on all ranks"));
  EXPECT_LT(outcome.seconds, kSeconds);
}

// Whose weights would be saved?
TEST(FailureLab, RanksThatEndApartLeaveAnAccountButNoWeights) {
  const TemporaryDirectory directory;
  const std::filesystem::path weights = directory.path() / "weights.safetensors";
  const Outcome outcome = test::run_program(
      BRIGADE_TRAIN_MLP, kTiny + ("--inject bit_flip --out run --save " + weights.string()), 2,
      directory.path());
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("they began alike: expected the same flags on all ranks, all "
                                     "ranks in every backward, and memory that keeps its bits"));
  EXPECT_THAT(outcome.out, HasSubstr("6 steps in "));
  EXPECT_THAT(outcome.out, Not(HasSubstr("parameters equal")));
  EXPECT_FALSE(std::filesystem::exists(weights));
  EXPECT_THAT(test::read(directory.path() / "run" / "summary.json"),
              HasSubstr("\"params_equal\": false"));
}

TEST(FailureLab, BroadcastHealsAnotherSeed) {
  const Outcome outcome = inject("other_seed --init-sync broadcast");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("parameters equal on all ranks"));
}

TEST(FailureLab, FindUnusedTrainsOnWithoutTheSkippedParameter) {
  for (const char* flags : {"", " --mode naive", " --mode no_sync --accum 2"}) {
    const Outcome outcome = inject(std::string("skip_param --find-unused") + flags, 3);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("parameters equal on all ranks")) << flags;
  }
}

TEST(FailureLab, WhatCannotBeInjectedIsAUsageErrorPrintedOnce) {
  const auto complaint = [](const std::string& fault, int ranks, const std::string& line) {
    const Outcome outcome = inject(fault, ranks);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(count(outcome.err, "--inject"), 1) << outcome.err;
    EXPECT_EQ(count(outcome.err, line), 1) << outcome.err;
    EXPECT_THAT(outcome.out, Not(HasSubstr("loss")));
  };
  complaint("slow:rank=2", 2, "[rank 0] --inject slow:rank=2: expected a rank from 0 to 1, got 2");
  complaint("slow", 0, "[rank 0] --inject slow: expected at least 2 ranks, got 1");
  complaint("bit_flip:step=7", 2,
            "[rank 0] --inject bit_flip:step=7: expected a step from 1 to 6, got 7");
  complaint("kill:step=7", 2, "[rank 0] --inject kill:step=7: expected a step from 1 to 6, got 7");
  complaint("skip_param:name=0.wieght", 2,
            "the model has no parameter \"0.wieght\"; did you mean 0.weight?");
  complaint("slwo", 2, "did you mean slow?");
}

TEST(WatchOfAJob, IsLeftOutWithAWarningWhereRanksCannotConnect) {
  const test::EnvironmentVariable interface("BRIGADE_SOCKET_IFNAME", "none0");
  const TemporaryDirectory directory;
  const Outcome outcome =
      test::run_program(BRIGADE_TRAIN_MLP, std::string(kTiny) + "--comm mpi", 2, directory.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.err,
                  "[rank 0] warning: nobody watches for ranks that stand still: rank 0: "
                  "sockets: BRIGADE_SOCKET_IFNAME=none0"),
            1)
      << outcome.err;
}

}  // namespace
}  // namespace brigade
