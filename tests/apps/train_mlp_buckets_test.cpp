// Runs the program under mpirun: what it says about its buckets.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using ::testing::HasSubstr;

using test::Outcome;
using test::read;

class TrainMlpBuckets : public ::testing::Test {
 protected:
  Outcome run(const std::string& flags, int ranks) const {
    return test::run_program(BRIGADE_TRAIN_MLP, flags, ranks, dir_.path());
  }

  TemporaryDirectory dir_;
};

TEST_F(TrainMlpBuckets, ShowsTheBucketsAgainWhenTheyWereRebuilt) {
  // 64 x 64 floats fill a bucket exactly, and rank 0, which decides, never sees 0.weight.
  const std::string flags =
      "--hidden 64 --bucket-mb 0.015625 --steps 6 --threads 1 --json --seed 1 --find-unused "
      "--inject skip_param:rank=0 ";
  const Outcome rebuilt = run(flags, 2);
  ASSERT_EQ(rebuilt.exit_code, 0) << rebuilt.err;
  EXPECT_THAT(rebuilt.err, testing::ContainsRegex(
                               "expected\n.*\n.*\n +2 +0.016 +1  0.weight\n +3 +0.000 +1  0.bias"));
  EXPECT_THAT(rebuilt.err, HasSubstr("buckets rebuilt after step 1"));
  EXPECT_THAT(
      rebuilt.err,
      testing::ContainsRegex("rank 0\n.*\n +1 +0.000 +1  2.bias, 0.bias\n +2 +0.016 +1  0.weight"));
  const nlohmann::json after = nlohmann::json::parse(rebuilt.out);
  EXPECT_EQ(after["buckets_rebuilt"], true);
  EXPECT_EQ(after["buckets"][2]["parameters"], nlohmann::json({"0.weight"}));
}

TEST_F(TrainMlpBuckets, SplitsABucketIntoCollectivesThatKeepTheirNames) {
  const Outcome outcome =
      run("--hidden 64 --bucket-mb 0.01 --split-tensors --steps 6 --threads 1 "
          "--json --trace ",
          2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["collectives_per_step"], 6);
  EXPECT_EQ(json["buckets"].size(), 4U) << "a weight is larger than the capacity";
  EXPECT_EQ(json["buckets"][2]["pieces"], 2);
  EXPECT_GE(json["buckets"][2]["begin_ms"], json["buckets"][2]["ready_ms"]);
  EXPECT_LT(json["buckets"][2]["begin_ms"], json["buckets"][2]["end_ms"]);
  EXPECT_THAT(read(dir_ / "runs" / "1" / "timeline.html"), HasSubstr("0.weight[1/2]: 0.weight"));
}

}  // namespace
}  // namespace brigade
