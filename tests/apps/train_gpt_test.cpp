// train_gpt as a user runs it, and against PyTorch (tests/data/make_gpt2_fixture.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/io/safetensors.h"
#include "nn/gpt2_files.h"
#include "tests/support/compare_weights.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using testing::HasSubstr;

// Set by CMake.
const fs::path kGpt2 = fs::path(BRIGADE_TEST_DATA) / "gpt2";

constexpr const char* kSmall =
    "--layers 2 --heads 2 --width 16 --context 16 --threads 1 --log-every 1 ";

Outcome train(const TemporaryDirectory& dir, const std::string& flags, int ranks = 0,
              const std::string& model = kSmall) {
  return test::run_program(
      BRIGADE_TRAIN_GPT, model + "--text " + (kGpt2 / "text.txt").string() + " --out run " + flags,
      ranks, dir.path());
}

/// The hash in "parameters equal on all ranks: ...".
std::string hash_of(const Outcome& run) {
  const std::string words = "parameters equal on all ranks: ";
  const std::size_t at = run.out.find(words);
  return at == std::string::npos ? "no hash" : run.out.substr(at + words.size(), 16);
}

/// From the fixture's weights, as its PyTorch did.
double distance_to_pytorch(int ranks, int accum, const std::string& more = "") {
  const TemporaryDirectory dir;
  const std::string flags = "--no-shuffle --steps 20 --lr 0.001 --save w.safetensors --init " +
                            kGpt2.string() + " --accum " + std::to_string(accum) + " --batch " +
                            std::to_string(12 / ranks / accum) + more;
  const Outcome run = train(dir, flags, ranks, "--context 16 --threads 1 ");
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.exit_code == 0 ? relative_l2(dir / "w.safetensors", kGpt2 / "expected.safetensors")
                            : 1.0;
}

TEST(TrainGptFixture, EndsWithPyTorchsWeightsOnOneTwoAndThreeRanks) {
  for (const int ranks : {1, 2, 3}) {
    EXPECT_LT(distance_to_pytorch(ranks, 1), 1e-5) << ranks;
  }
}

TEST(TrainGptFixture, EndsWithPyTorchsWeightsWhenGradientsAccumulate) {
  for (const int ranks : {1, 2, 3}) {
    EXPECT_LT(distance_to_pytorch(ranks, 2, " --mode no_sync"), 1e-5) << ranks;
  }
}

TEST(TrainGptFixture, HasPyTorchsLogits) {
  nn::GPT model(nn::load_gpt2_options(kGpt2, {}));
  nn::load_gpt2(model, kGpt2);
  const auto expected =
      load_safetensors(kGpt2 / "logits.safetensors").front().second.to_vector<float>();
  std::vector<nn::KeysAndValues> memory = model.empty_memory();
  std::size_t at = 0;
  for (const char token : std::string("To be, or not")) {
    for (const float logit : model.forward_next(token, memory).to_vector<float>()) {
      ASSERT_NEAR(logit, expected.at(at++), 1e-4);
    }
  }
  EXPECT_EQ(at, expected.size());
}

TEST(TrainGpt, EndsWithTheSameBitsInAllModes) {
  for (const int ranks : {2, 3}) {
    std::string expected;
    for (const char* mode : {"naive", "flat", "per_param", "overlap", "overlap --dtype bf16"}) {
      const TemporaryDirectory dir;
      const Outcome run = train(dir,
                                std::string("--steps 5 --reduce deterministic --bucket-mb 0.01 ") +
                                    "--batch " + std::to_string(6 / ranks) + " --mode " + mode,
                                ranks);
      ASSERT_EQ(run.exit_code, 0) << run.err;
      ASSERT_NE(hash_of(run), "no hash");
      if (mode == std::string("overlap --dtype bf16")) {
        EXPECT_NE(hash_of(run), expected);
      } else {
        expected = expected.empty() ? hash_of(run) : expected;
        EXPECT_EQ(hash_of(run), expected) << ranks << " ranks, " << mode;
      }
    }
  }
}

TEST(TrainGpt, EndsWithTheWeightsOfOneRank) {
  const TemporaryDirectory one;
  const Outcome alone = train(one, "--steps 5 --batch 12 --save w.safetensors", 1);
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  EXPECT_THAT(alone.out, HasSubstr("wrote config.json, w.safetensors, "));
  for (const int ranks : {2, 3}) {
    for (const char* mode : {"naive", "flat", "per_param", "overlap", "no_sync --accum 2"}) {
      const TemporaryDirectory dir;
      const Outcome run =
          train(dir, std::string("--steps 5 --global-batch 12 --save w.safetensors --mode ") + mode,
                ranks);
      ASSERT_EQ(run.exit_code, 0) << run.err;
      EXPECT_LT(relative_l2(dir / "w.safetensors", one / "w.safetensors"), 1e-6)
          << ranks << " ranks, " << mode;
    }
  }
}

TEST(TrainGpt, ContinuesFromACheckpointToTheBitDropoutIncluded) {
  const std::string flags =
      "--batch 3 --dropout 0.2 --schedule cosine --lr-warmup 2 --checkpoint-every 3 ";
  const TemporaryDirectory whole;
  const Outcome expected = train(whole, flags + "--steps 9", 2);
  ASSERT_EQ(expected.exit_code, 0) << expected.err;
  ASSERT_NE(hash_of(expected), "no hash");
  const TemporaryDirectory parts;
  const Outcome killed = train(parts, flags + "--steps 9 --inject kill:rank=1,step=8", 2);
  ASSERT_NE(killed.exit_code, 0);
  const Outcome resumed = train(parts, flags + "--steps 9 --resume latest", 2);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(hash_of(resumed), hash_of(expected));
}

TEST(TrainGpt, TellsTokensBitsPerByteAndASample) {
  const TemporaryDirectory dir;
  const Outcome run = train(dir, "--steps 3 --batch 2 --sample 20 --prompt be", 2);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("Brigade 0.1.0 train_gpt"));
  EXPECT_THAT(run.out,
              HasSubstr("GPT-2, 2 layers of width 16, 2 heads, context 16, vocabulary 256"));
  EXPECT_THAT(run.out, HasSubstr("4 global sequences, 64 tokens"));
  EXPECT_THAT(run.out, HasSubstr(" tokens/s  MFU "));
  EXPECT_THAT(run.out, HasSubstr(" bits per byte, accuracy "));
  EXPECT_THAT(run.out, HasSubstr("sample, 20 tokens\nbe"));
  EXPECT_THAT(test::read(dir / "run/summary.json"), HasSubstr("\"bits_per_byte\": "));
}

TEST(TrainGpt, DrawsItsGraphWithTheTiedWeightReadyLast) {
  const TemporaryDirectory dir;
  const Outcome run = train(dir, "--steps 2 --batch 1 --bucket-mb 0.01 --graph g.dot", 2);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string graph = test::read(dir / "g.dot");
  EXPECT_THAT(graph, HasSubstr("label=\"transformer.wte.weight\\n[256, 16]\\nready 28, bucket "));
  EXPECT_THAT(graph, HasSubstr("[label=\"causal_attention\"]"));
  EXPECT_EQ(test::count(graph, "shape=ellipse"), 28);
  EXPECT_THAT(run.out, HasSubstr("g.dot"));
}

TEST(TrainGpt, IsComparedInAllModes) {
  const TemporaryDirectory dir;
  const Outcome run = test::run_program(
      BRIGADE_COMPARE_MODES,
      std::string(
          "--model gpt --layers 1 --heads 2 --width 16 --context 16 --batch 2 --threads 1 ") +
          "--steps 3 --rounds 1 --bucket-mb 0.01 --out c --text " + (kGpt2 / "text.txt").string(),
      2, dir.path());
  ASSERT_EQ(run.exit_code, 0) << run.err << run.out;
  EXPECT_THAT(run.out, HasSubstr("GPT-2, 1 layers of width 16"));
  // The tied weight is used first, so its gradient comes last.
  EXPECT_THAT(run.out, HasSubstr("\n  buckets of overlap"));
  EXPECT_THAT(run.out, HasSubstr("transformer.wte.weight"));
  EXPECT_TRUE(fs::exists(dir / "c/compare.html"));
  for (const auto& [flags, line] :
       {std::pair{"--model gpt --no-bias", "--no-bias: expected --model mlp, got gpt"},
        std::pair{"--layers 2", "--layers: expected --model gpt, got mlp"}}) {
    const Outcome refused = test::run_program(BRIGADE_COMPARE_MODES, flags, 0, dir.path());
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr(line));
  }
}

TEST(TrainGpt, RefusesWrongFlagsWithOneLine) {
  const TemporaryDirectory dir;
  const auto error = [&](const std::string& flags) {
    const Outcome run = train(dir, flags, 0, "");
    EXPECT_EQ(run.exit_code, 2) << flags;
    return run.err;
  };
  EXPECT_THAT(error("--heads 3"), HasSubstr("--heads: expected a divisor of --width 128, got 3"));
  EXPECT_THAT(error("--heads 1 --width 512"),
              HasSubstr("--heads: expected at most 256 numbers per head"));
  EXPECT_THAT(error("--layers 3 --init " + kGpt2.string()),
              HasSubstr("--layers: expected 2, which --init has, got 3"));
  EXPECT_THAT(error("--graph x.svg"), HasSubstr("--graph: expected a file for Graphviz' language"));
  EXPECT_THAT(error("--inject nan"), HasSubstr("--inject nan: expected a model of numbers"));
  EXPECT_THAT(error("--hidden 8"), HasSubstr("unknown flag --hidden"));
  EXPECT_THAT(error("--context 100000"), HasSubstr("expected more than 100000 tokens"));
  EXPECT_THAT(error("--tokenizer nowhere"), HasSubstr("vocab.json: No such file"));
  EXPECT_THAT(error("--context 17 --init " + kGpt2.string()),
              HasSubstr("--context: expected at most 16, the positions that --init has, got 17"));
  EXPECT_THAT(error("--dropout 1"),
              HasSubstr("--dropout: expected a number from 0 to less than 1, got \"1\""));
}

}  // namespace
}  // namespace brigade
