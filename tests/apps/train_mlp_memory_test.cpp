// Where the memory of a run is, as summary.json and the last lines say.
#include <gmock/gmock.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using ::testing::HasSubstr;

// 8 -> 8 -> 24 -> 24 with bias: 64 + 8, 192 + 24, 576 + 24 numbers; in the buckets each tensor is
// padded to a multiple of 16 numbers.
constexpr const char* kFlags = "--hidden 8,24 --steps 6 --batch 4 --train-samples 64 --json ";
constexpr std::uint64_t kNumbers = 64 + 16 + 192 + 32 + 576 + 32;
constexpr std::uint64_t kBytes = kNumbers * sizeof(float);
// The optimizer's tensors have the buckets' layout and end with the last weight.
constexpr std::uint64_t kStateBytes = (kNumbers - 8) * sizeof(float);

class Memory : public ::testing::Test {
 protected:
  nlohmann::json memory_of(const std::string& flags, int ranks = 0) {
    outcome_ = test::run_program(BRIGADE_TRAIN_MLP, kFlags + flags, ranks, dir_.path());
    EXPECT_EQ(outcome_.exit_code, 0) << outcome_.err;
    const auto json = nlohmann::json::parse(outcome_.out);
    EXPECT_EQ(json["memory_bytes"]["peak"], json["peak_memory_bytes"]);
    return json["memory_bytes"];
  }

  static std::uint64_t sum(const nlohmann::json& memory) {
    return memory["weights"].get<std::uint64_t>() + memory["gradients"].get<std::uint64_t>() +
           memory["optimizer_state"].get<std::uint64_t>() +
           memory["activations_and_rest"].get<std::uint64_t>();
  }

  TemporaryDirectory dir_;
  test::Outcome outcome_;
};

TEST_F(Memory, PartsHaveTheirExactSizeAndAddUpToThePeak) {
  const nlohmann::json memory = memory_of("--momentum 0.9");
  EXPECT_EQ(memory["weights"], kBytes);
  EXPECT_EQ(memory["gradients"], kBytes);
  EXPECT_EQ(memory["optimizer_state"], kStateBytes);
  EXPECT_EQ(sum(memory), memory["peak"]);
  // Inputs, targets and the prediction of the 128 samples that are tested at a time at least, and
  // not all 1024 of them.
  EXPECT_GT(memory["activations_and_rest"], 128 * (8 + 24 + 24) * sizeof(float));
  EXPECT_LT(memory["activations_and_rest"], 1024 * (8 + 24) * sizeof(float));
  EXPECT_GT(memory["process_growth"], memory["weights"]);
  EXPECT_THAT(outcome_.err, HasSubstr("gradients = buckets"));
}

TEST_F(Memory, OptimizersDiffer) {
  EXPECT_EQ(memory_of("--momentum 0")["optimizer_state"], 0);
  EXPECT_EQ(memory_of("--optimizer adam")["optimizer_state"], 2 * kStateBytes);
}

TEST_F(Memory, GradientsSharedWithOtherRanksAreCounted) {
  const nlohmann::json memory = memory_of("--comm shared", 2);
  EXPECT_EQ(memory["gradients"], kBytes);
  EXPECT_EQ(sum(memory), memory["peak"]);
}

TEST_F(Memory, ActivationsUseThatOfGradientsWithLowMemory) {
  const std::string large = "--depth 4 --width 1024 --batch 1024 --train-samples 1024 --steps 3 ";
  const nlohmann::json usual = memory_of(large + "--out " + (dir_.path() / "usual").string());
  const auto weights = nlohmann::json::parse(outcome_.out)["params_hash"];
  const nlohmann::json low =
      memory_of(large + "--low-memory --out " + (dir_.path() / "low").string());
  EXPECT_EQ(nlohmann::json::parse(outcome_.out)["params_hash"], weights);
  // There are 16 MiB of each, at different times, and 6 MiB may wait for reuse.
  EXPECT_LT(low["process_growth"].get<std::int64_t>(),
            usual["process_growth"].get<std::int64_t>() - (8 << 20));
}

TEST_F(Memory, IsNotGivenBackBeforeUpdatesInFlightHaveUsedIt) {
  outcome_ = test::run_program(BRIGADE_TRAIN_MLP, "--low-memory --cross-step", 0, dir_.path());
  EXPECT_EQ(outcome_.exit_code, 2);
  EXPECT_THAT(outcome_.err, HasSubstr("--low-memory: expected gradients that are used when a step "
                                      "ends, got --cross-step"));
}

}  // namespace
}  // namespace brigade
