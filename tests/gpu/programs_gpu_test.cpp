// The programs as a user starts them where there is a GPU.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/config.h"
#include "core/error.h"
#include "tests/gpu/two_gpus.h"
#include "tests/support/compare_weights.h"
#include "tests/support/environment.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using nlohmann::json;
using test::Outcome;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kNoNccl = "this build has no NCCL";
constexpr const char* kShared = "several ranks share one GPU";

template <class Gpus>
class Programs : public Gpus {
 protected:
  Outcome train(const std::string& flags, int ranks) const {
    return test::run_program(BRIGADE_TRAIN_MLP, test::kTiny + flags, ranks, dir_.path());
  }

  TemporaryDirectory dir_;

 private:
  const test::EnvironmentVariable most_gflop_{"EMULATOR_MOST_GFLOP", "1"};
};

using ProgramsOnGpu = Programs<GpuTest>;
using ProgramsOnTwoGpus = Programs<TwoGpusTest>;

TEST_F(ProgramsOnGpu, RanksThatShareAGpuAreWarned) {
  if (!kHasNccl) {
    GTEST_SKIP() << kNoNccl;
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string all = visible == nullptr ? "0" : visible;
  const test::EnvironmentVariable first("CUDA_VISIBLE_DEVICES", all.substr(0, all.find(',')));
  const Outcome outcome = train("--device cuda --json", 2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(test::count(outcome.err, kShared), 1) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["device"], "cuda");
}

TEST_F(ProgramsOnTwoGpus, EachRankTakesOneOfItsOwn) {
  if (!kHasNccl) {
    GTEST_SKIP() << kNoNccl;
  }
  const Outcome outcome = train("--device cuda --json", 2);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr(kShared)));
  EXPECT_THAT(json::parse(outcome.out)["comm"].get<std::string>(), Not(HasSubstr("share")));
}

/// Rank 1 sees no GPU.
class OneRankWithoutAGpu : public ProgramsOnGpu {
 protected:
  Outcome train_two(const std::string& flags) const {
    const std::filesystem::path script = dir_.path() / "train";
    std::ofstream(script) << "#!/bin/sh\n"
                             "if [ \"$OMPI_COMM_WORLD_RANK\" = 1 ]; then\n"
                             "  export CUDA_VISIBLE_DEVICES=\n"
                             "fi\n"
                             "exec " BRIGADE_TRAIN_MLP " \"$@\"\n";
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    return test::run_program(script, test::kTiny + flags, 2, dir_.path());
  }
};

TEST_F(OneRankWithoutAGpu, MeansNoneForAnyRank) {
  const Outcome outcome = train_two("--device auto --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["device"], "cpu");
  EXPECT_EQ(test::count(outcome.err, "rank 1 has no GPU): running on the CPU"), 1) << outcome.err;
}

TEST_F(OneRankWithoutAGpu, IsAMistakeWhereGpusWereAskedFor) {
  const Outcome outcome = train_two("--device cuda");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("device: cuda is not usable: rank 1 has no GPU"));
}

TEST_F(ProgramsOnGpu, FactorsAreRoundedOnlyOnRequest) {
  const auto loss = [this](const char* flags) {
    constexpr const char* kLarge =
        "--hidden 256,256 --batch 128 --train-samples 256 --steps 2 --json ";
    const Outcome outcome = train(std::string(kLarge) + flags, 1);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out)["loss_last"].get<double>();
  };
  const double cpu = loss("--device cpu");
  const double gpu = std::abs(loss("--device cuda") / cpu - 1.0);
  const double tf32 = std::abs(loss("--device cuda --matmul-precision high") / cpu - 1.0);
  const double bf16 = std::abs(loss("--device cuda --matmul-precision medium") / cpu - 1.0);
  EXPECT_LT(gpu, 2e-6);
  EXPECT_GT(tf32, 2 * gpu) << "relative distance; highest: " << gpu;
  EXPECT_GT(bf16, 2 * gpu);
}

struct Case {
  const char* name;
  const char* flags;
  double distance = 1e-6;  ///< relative L2, at most, between the weights
};

class TrainingOnBoth : public ProgramsOnGpu, public testing::WithParamInterface<Case> {};

TEST_P(TrainingOnBoth, EndsWithTheSameWeights) {
  const Case& run = GetParam();
  const auto train_on = [&](const std::string& device) {
    const Outcome outcome = train(
        fmt::format("--json --device {} --save {}.safetensors {}", device, device, run.flags), 2);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(json::parse(outcome.out)["device"], device);
  };
  ASSERT_NO_FATAL_FAILURE(train_on("cpu"));
  ASSERT_NO_FATAL_FAILURE(train_on("cuda"));
  EXPECT_LE(relative_l2(dir_.path() / "cuda.safetensors", dir_.path() / "cpu.safetensors"),
            run.distance);
}

INSTANTIATE_TEST_SUITE_P(
    Flags, TrainingOnBoth,
    testing::Values(Case{"Naive", "--mode naive --clip-norm 0.1 --momentum 0.9 --nesterov"},
                    Case{"PerParam", "--mode per_param --reduce deterministic --comm mpi"},
                    Case{"NoSync", "--mode no_sync --accum 2"},
                    Case{"OptimizerOverlap", "--optimizer-overlap --optimizer adam --trace"},
                    Case{"CrossStep", "--cross-step --weight-decay 0.1 --prefetch off"},
                    Case{"Uneven", "--train-samples 61 --loss cross_entropy --find-unused"},
                    Case{"Bf16", "--dtype bf16 --optimizer adamw", 1e-3},
                    Case{"Fp16Hook", "--comm-hook fp16 --bucket-mb 0.0001", 1e-3}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace brigade
