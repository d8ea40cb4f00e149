#include "nn/weights.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/io/safetensors.h"
#include "nn/linear.h"
#include "nn/relu.h"
#include "nn/sequential.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace brigade::nn {
namespace {

Sequential two_layers() {
  return Sequential(Linear(4, 3), ReLU(), Linear(3, 2));
}

/// A rank that notes whether it waits for the others.
struct Rank {
  int number;
  mutable bool waited = false;
  int rank() const { return number; }
  void barrier() const { waited = true; }
};

TEST(Weights, SavedOnesComeBack) {
  const TemporaryDirectory dir;
  const Sequential saved = two_layers();
  const Sequential loaded = two_layers();
  EXPECT_NE(autograd::values_of(saved.parameters()), autograd::values_of(loaded.parameters()));
  save(saved, dir / "w.safetensors");
  load(loaded, dir / "w.safetensors");
  EXPECT_EQ(autograd::values_of(saved.parameters()), autograd::values_of(loaded.parameters()));
}

TEST(Weights, AreSavedUnderPyTorchsNames) {
  const TemporaryDirectory dir;
  save(two_layers(), dir / "w.safetensors");
  std::vector<std::string> names;
  for (const auto& [name, tensor] : load_safetensors(dir / "w.safetensors")) {
    names.push_back(name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"}));
}

TEST(Weights, OfAPartHaveItsOwnNames) {
  const TemporaryDirectory dir;
  const Sequential part = two_layers();
  const Sequential whole(part, ReLU());
  EXPECT_EQ(whole.parameters()[0].name(), "0.0.weight");
  save(part, dir / "w.safetensors");
  EXPECT_EQ(load_safetensors(dir / "w.safetensors").front().first, "0.weight");
  load(part, dir / "w.safetensors");
  EXPECT_EQ(whole.parameters()[0].name(), "0.0.weight");
}

TEST(Weights, AreWrittenByRankZeroWhileTheOthersWait) {
  const TemporaryDirectory dir;
  for (const int number : {1, 0}) {
    const Rank rank{number};
    save(two_layers(), dir / "w.safetensors", rank);
    EXPECT_TRUE(rank.waited);
    EXPECT_EQ(std::filesystem::exists(dir / "w.safetensors"), number == 0);
  }
}

TEST(Weights, OfAnotherNetworkAreRefused) {
  const TemporaryDirectory dir;
  const auto path = dir / "w.safetensors";
  const std::string head = path.string() + ": the weights of another network: ";
  const std::string tail = "; use the network it was saved from";
  save(Sequential(Linear(4, 3)), path);
  EXPECT_ERROR_OF(UsageError, load(Sequential(Linear(5, 3)), path),
                  head + "expected 0.weight [3, 5] f32, got 0.weight [3, 4] f32" + tail);
  EXPECT_ERROR_OF(UsageError, load(Sequential(Linear(4, 3, {.bias = false})), path),
                  head + "expected nothing, got 0.bias [3] f32" + tail);
  const Sequential deeper(Linear(4, 3, {.bias = false}), ReLU(), Linear(3, 1, {.bias = false}));
  EXPECT_ERROR_OF(
      UsageError, load(deeper, path),
      head + "expected 2.weight [1, 3] f32, got nothing; expected nothing, got 0.bias [3] f32" +
          tail);
}

TEST(Weights, OfAnotherTypeAreToBeConverted) {
  const TemporaryDirectory dir;
  const auto path = dir / "w.safetensors";
  const Sequential model(Linear(4, 3, {.bias = false}));
  save_safetensors(path, {{"0.weight", Tensor::zeros({3, 4}, DType::bf16)}});
  EXPECT_ERROR_OF(UsageError, load(model, path),
                  path.string() +
                      ": numbers of another type: expected 0.weight [3, 4] f32, got 0.weight [3, "
                      "4] bf16; convert the file");
  save_safetensors(path, {{"0.weight", Tensor::zeros({3, 4}, DType::bf16)},
                          {"0.bias", Tensor::zeros({3}, DType::bf16)}});
  EXPECT_ERROR_OF(UsageError, load(model, path),
                  path.string() +
                      ": the weights of another network: expected 0.weight [3, 4] f32, got "
                      "0.weight [3, 4] bf16; expected nothing, got 0.bias [3] bf16; use the "
                      "network it was saved from");
}

TEST(Weights, ThatAreNotFiniteAreRefused) {
  const TemporaryDirectory dir;
  const auto path = dir / "w.safetensors";
  const Sequential model(Linear(4, 3));
  for (const float odd : {std::nanf(""), -INFINITY}) {
    model.parameters()[1].data().data<float>()[2] = odd;
    save(model, path);
    EXPECT_ERROR_OF(UsageError, load(model, path),
                    path.string() +
                        ": expected finite numbers, got others in 0.bias: the training that it "
                        "comes from has diverged");
  }
}

}  // namespace
}  // namespace brigade::nn
