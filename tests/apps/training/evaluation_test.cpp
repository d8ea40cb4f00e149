// The test loss and accuracy, against sums over the files that the test makes for itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/training/evaluate.h"
#include "apps/training/model.h"
#include "core/random.h"
#include "dist/comm/single_process.h"
#include "nn/data/fashion_mnist.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "nn/weights.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thread_world.h"

namespace brigade::apps {
namespace {

// Set by CMake.
const std::filesystem::path kData = BRIGADE_TEST_DATA;
const std::filesystem::path kTiny = kData / "tiny";

/// PyTorch's initial weights.
std::unique_ptr<nn::Module> fixture_model() {
  auto model = make_network({{16, 24, 10}, true}, 0, kCpu);
  nn::load(*model, kData / "init.safetensors");
  return model;
}

/// W x + b of one sample.
std::vector<double> linear(const std::vector<float>& w, const std::vector<float>& b,
                           const std::vector<double>& x) {
  std::vector<double> y(b.begin(), b.end());
  for (std::size_t out = 0; out < y.size(); ++out) {
    for (std::size_t in = 0; in < x.size(); ++in) {
      y[out] += static_cast<double>(w[out * x.size() + in]) * x[in];
    }
  }
  return y;
}

/// Sample by sample in double, from the bytes of the t10k files.
Evaluation by_hand() {
  const data::IdxFile images = data::read_idx(kTiny / "t10k-images-idx3-ubyte.gz", 3);
  const data::IdxFile labels = data::read_idx(kTiny / "t10k-labels-idx1-ubyte.gz", 1);
  std::vector<std::vector<float>> weights;
  for (const autograd::Variable& parameter : fixture_model()->parameters()) {
    weights.push_back(parameter.data().to_vector<float>());
  }
  double loss = 0.0;
  double correct = 0.0;
  for (std::size_t sample = 0; sample < labels.bytes.size(); ++sample) {
    std::vector<double> x(16);
    std::transform(images.bytes.begin() + static_cast<std::ptrdiff_t>(16 * sample),
                   images.bytes.begin() + static_cast<std::ptrdiff_t>(16 * (sample + 1)), x.begin(),
                   [](std::uint8_t pixel) { return pixel / 255.0; });
    std::vector<double> hidden = linear(weights[0], weights[1], x);
    for (double& unit : hidden) {
      unit = std::max(unit, 0.0);
    }
    const std::vector<double> scores = linear(weights[2], weights[3], hidden);
    double sum = 0.0;
    for (const double score : scores) {
      sum += std::exp(score);
    }
    const std::uint8_t label = labels.bytes[sample];
    loss += std::log(sum) - scores[label];
    correct += std::max_element(scores.begin(), scores.end()) - scores.begin() == label ? 1.0 : 0.0;
  }
  const auto samples = static_cast<double>(labels.bytes.size());
  return {.loss = loss / samples, .accuracy = correct / samples};
}

// 64 samples: 10 steps of one rank and 4 of three, the last ones smaller.
TEST(Evaluate, IsTheMeanOverAllSamplesHoweverTheyAreCut) {
  const Evaluation expected = by_hand();
  const data::DataSplits data = data::load_fashion_mnist(kTiny, 0);
  ASSERT_EQ(data.test->size(), 64);
  for (const int ranks : {1, 3}) {
    test::thread_world(ranks, [&](dist::Communicator& comm) {
      const Evaluation found =
          evaluate(*fixture_model(), *make_loss("cross_entropy"), *data.test, 7, comm, kCpu);
      EXPECT_NEAR(found.loss, expected.loss, 1e-6) << ranks << " ranks";
      EXPECT_DOUBLE_EQ(found.accuracy.value_or(-1.0), *expected.accuracy) << ranks << " ranks";
    });
  }
}

TEST(Evaluate, TheProgramTestsOnTheTestImages) {
  const Evaluation expected = by_hand();
  for (const int ranks : {0, 3}) {
    const TemporaryDirectory dir;
    // A step too small to change anything.
    const test::Outcome outcome = test::run_program(
        BRIGADE_TRAIN_MLP,
        "--device cpu --data fashion-mnist --data-dir " + kTiny.string() + " --init " +
            (kData / "init.safetensors").string() +
            " --loss cross_entropy --hidden 24 --steps 1 --lr 1e-30 --threads 1 --json",
        ranks, dir.path());
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const auto json = nlohmann::json::parse(outcome.out);
    EXPECT_NEAR(json["test_loss"].get<double>(), expected.loss, 1e-6);
    EXPECT_DOUBLE_EQ(json["accuracy"].get<double>(), *expected.accuracy);
  }
}

TEST(Evaluate, LeavesNothingOutAndDrawsNoNumbers) {
  manual_seed(1);
  nn::Sequential model(nn::Linear(16, 24), nn::Dropout(0.5), nn::Linear(24, 10));
  const auto data = data::load_fashion_mnist(kTiny, 0);
  const std::uint32_t before = dropout_position().sequence;
  dist::SingleProcessCommunicator alone(kCpu);
  const Evaluation first = evaluate(model, nn::cross_entropy, *data.test, 16, alone, kCpu);
  const Evaluation second = evaluate(model, nn::cross_entropy, *data.test, 16, alone, kCpu);
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(dropout_position().sequence, before) << "a run that tests more often stays the same";
  EXPECT_TRUE(model.is_training());
}

}  // namespace
}  // namespace brigade::apps
