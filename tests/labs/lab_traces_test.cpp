// Each lab with --trace: the picture shows what the lab's README tells to look for in it.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/apps/compare/picture.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using apps::intersect;
using apps::total_length;
using test::Picture;
using testing::HasSubstr;

constexpr int kRanks = 2;
constexpr std::size_t kRecorded = 3;  // steps, as --trace-steps has it by default
constexpr std::size_t kParameters = 6;

class LabTraces : public testing::Test {
 protected:
  /// Rank 0's recorded steps of a lab over an emulated link.
  std::vector<Picture> steps_of(const std::string& lab, const std::string& flags = "") const {
    const test::Outcome outcome =
        test::run_program(std::string(BRIGADE_LABS) + "/" + lab,
                          "--trace --emulate-link 50,0.1 --out run " + flags, kRanks, dir_.path());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("wrote trace.json.gz and timeline.html in run"));
    const std::string page = test::read(dir_ / "run" / "timeline.html");
    EXPECT_THAT(page, HasSubstr("2 ranks"));
    EXPECT_EQ(Picture(dir_ / "run" / "trace.json.gz", 1).steps.size(), kRecorded) << "all ranks";
    const Picture all(dir_ / "run" / "trace.json.gz", 0);
    EXPECT_EQ(all.steps.size(), kRecorded);
    std::vector<Picture> steps;
    for (std::size_t step = 0; step < all.steps.size(); ++step) {
      steps.push_back(all.step(step));
    }
    return steps;
  }

  TemporaryDirectory dir_;
};

/// One collective ends before the next begins, and all after the last operation of backward.
void expect_blocks_after_backward(const Picture& step) {
  double free_from = step.operations.back().end;
  for (const Picture::Span& collective : step.comm) {
    EXPECT_GE(collective.begin, free_from) << collective.name;
    free_from = collective.end;
  }
  EXPECT_LE(free_from, step.optimizers.at(0).begin);
  EXPECT_EQ(total_length(intersect(step.operating(), step.communicating())), 0.0);
}

TEST_F(LabTraces, OneHasNothingInTheCommunicationLane) {
  for (const Picture& step : steps_of("lab1_no_sync")) {
    EXPECT_EQ(step.forwards.size(), 1U);
    EXPECT_EQ(step.backwards.size(), 1U);
    EXPECT_EQ(step.operations.front().name, "mse_loss");
    EXPECT_EQ(step.operations.back().name, "linear_relu 0.weight");
    EXPECT_TRUE(step.comm.empty());
    EXPECT_TRUE(step.waits.empty());
  }
}

TEST_F(LabTraces, TwoHasASolidBlockOfOneAllReducePerParameter) {
  for (const Picture& step : steps_of("lab2_naive")) {
    ASSERT_EQ(step.comm.size(), kParameters);
    expect_blocks_after_backward(step);
    EXPECT_EQ(step.comm.front().name, "allreduce_0.weight");
  }
}

TEST_F(LabTraces, ThreeStartsAllReducesWhileBackwardRuns) {
  for (const Picture& step : steps_of("lab3_hooks")) {
    ASSERT_EQ(step.comm.size(), kParameters);
    EXPECT_EQ(step.comm.front().name, "allreduce_4.weight") << "the last layer's, first";
    EXPECT_LT(step.launches.front().begin, step.operations[1].end) << "during its own operation";
    EXPECT_LT(step.launches[3].begin, step.operations.back().begin) << "backward has not ended";
  }
}

TEST_F(LabTraces, FourHasTwoPiecesAfterBackward) {
  for (const Picture& step : steps_of("lab4_halves")) {
    ASSERT_EQ(step.comm.size(), 2U);
    expect_blocks_after_backward(step);
    EXPECT_LT(20.0 * step.comm[0].mib, step.comm[1].mib) << "equal in number, not in bytes";
  }
}

TEST_F(LabTraces, FiveStartsThreeBucketsInOrderTheFirstUnderBackward) {
  for (const Picture& step : steps_of("lab5_overlap")) {
    ASSERT_EQ(step.comm.size(), 3U);
    for (std::size_t i = 0; i < step.comm.size(); ++i) {
      EXPECT_EQ(step.comm[i].name, "allreduce_bucket_" + std::to_string(i));
    }
    EXPECT_LT(step.launches[1].begin, step.operations.back().begin);
    EXPECT_GE(step.comm.back().end, step.operations.back().end);
  }
}

TEST_F(LabTraces, SixIsSilentForThreeMicroBatchesAndBurstsInTheFourth) {
  for (const Picture& step : steps_of("lab6_accumulation")) {
    ASSERT_EQ(step.forwards.size(), 4U);
    ASSERT_EQ(step.backwards.size(), 4U);
    ASSERT_EQ(step.comm.size(), kParameters);
    EXPECT_GE(step.comm.front().begin, step.backwards.back().begin);
  }
}

TEST_F(LabTraces, SevenHasOneBarOfTheLibraryAndOnePerStepOfTheRing) {
  for (const Picture& step : steps_of("lab7_ring")) {
    ASSERT_EQ(step.comm.size(), 1U + 2 * (kRanks - 1));
    EXPECT_EQ(step.comm[0].name, "allreduce_Communicator");
    EXPECT_EQ(step.comm[1].name, "allreduce_reduce-scatter");
    EXPECT_EQ(step.comm[2].name, "allreduce_all-gather");
    EXPECT_EQ(step.comm[0].mib, kRanks * step.comm[1].mib) << "a chunk is 1/N of the tensor";
    EXPECT_GE(step.comm[2].begin, step.comm[1].end);
  }
}

TEST_F(LabTraces, RecordsTheStepsAskedFor) {
  const test::Outcome outcome =
      test::run_program(std::string(BRIGADE_LABS) + "/lab2_naive",
                        "--trace --trace-steps 1 --out run", kRanks, dir_.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Picture picture(dir_ / "run" / "trace.json.gz", 0);
  ASSERT_EQ(picture.steps.size(), 1U);
  EXPECT_EQ(picture.steps[0].name, "step 6");
}

TEST_F(LabTraces, WithoutTheFlagNothingIsWritten) {
  const test::Outcome outcome =
      test::run_program(std::string(BRIGADE_LABS) + "/lab2_naive", "", kRanks, dir_.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "runs"));
}

TEST_F(LabTraces, AFlagOfAnotherProgramIsRefused) {
  const test::Outcome outcome =
      test::run_program(std::string(BRIGADE_LABS) + "/lab2_naive", "--mode naive", 0, dir_.path());
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("lab2_naive: unknown flag --mode"));
}

}  // namespace
}  // namespace brigade
