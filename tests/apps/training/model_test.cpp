#include "apps/training/model.h"

#include <cmath>
#include <string>

#include "core/io/safetensors.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace brigade::apps {
namespace {

std::vector<std::string> names(const nn::Module& model) {
  std::vector<std::string> result;
  for (const autograd::Variable& parameter : model.parameters()) {
    result.push_back(parameter.name());
  }
  return result;
}

TEST(Model, ParametersAreNamedAsPyTorchNamesThem) {
  const auto model = make_mlp({{4, 3, 2}, true}, 0, kCpu);
  EXPECT_EQ(names(*model), (std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"}));
  EXPECT_EQ(model->parameters()[0].shape(), Shape({3, 4}));
  EXPECT_EQ(count_elements(model->parameters()), 4 * 3 + 3 + 3 * 2 + 2);
  EXPECT_EQ((MlpShape{{4, 3, 2}, true}.description()), "4-3-2");
}

TEST(Model, WithoutBiasTheWeightsStartTheSame) {
  const auto with = make_mlp({{4, 3, 2}, true}, 7, kCpu);
  const auto without = make_mlp({{4, 3, 2}, false}, 7, kCpu);
  EXPECT_EQ(names(*without), (std::vector<std::string>{"0.weight", "2.weight"}));
  EXPECT_EQ(with->parameters()[2].data().to_vector<float>(),
            without->parameters()[1].data().to_vector<float>());
}

TEST(Model, SavedWeightsComeBack) {
  const TemporaryDirectory dir;
  const auto saved = make_mlp({{4, 3, 2}, true}, 1, kCpu);
  const auto loaded = make_mlp({{4, 3, 2}, true}, 2, kCpu);
  save_weights(dir / "w.safetensors", saved->parameters());
  load_weights(dir / "w.safetensors", loaded->parameters());
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(saved->parameters()[i].data().to_vector<float>(),
              loaded->parameters()[i].data().to_vector<float>());
  }
}

TEST(Model, RefusesWeightsOfAnotherNetwork) {
  const TemporaryDirectory dir;
  const auto path = dir / "w.safetensors";
  const std::string head = "--init " + path.string() + ": the weights of another network: ";
  const std::string tail = "; choose --hidden, --depth, --width, --no-bias to match";
  save_weights(path, make_mlp({{4, 3}, true}, 0, kCpu)->parameters());
  EXPECT_ERROR_OF(UsageError, load_weights(path, make_mlp({{5, 3}, true}, 0, kCpu)->parameters()),
                  head + "expected 0.weight [3, 5] f32, got 0.weight [3, 4] f32" + tail);
  EXPECT_ERROR_OF(UsageError, load_weights(path, make_mlp({{4, 3}, false}, 0, kCpu)->parameters()),
                  head + "expected nothing, got 0.bias [3] f32" + tail);
  EXPECT_ERROR_OF(
      UsageError, load_weights(path, make_mlp({{4, 3, 1}, false}, 0, kCpu)->parameters()),
      head + "expected 2.weight [1, 3] f32, got nothing; expected nothing, got 0.bias [3] f32" +
          tail);
}

TEST(Model, SaysWhenOnlyTheTypeOfTheNumbersIsAnother) {
  const TemporaryDirectory dir;
  const auto path = dir / "w.safetensors";
  const auto model = make_mlp({{4, 3}, false}, 0, kCpu);
  save_safetensors(path, {{"0.weight", Tensor::zeros({3, 4}, DType::bf16)}});
  EXPECT_ERROR_OF(UsageError, load_weights(path, model->parameters()),
                  "--init " + path.string() +
                      ": numbers of another type: expected 0.weight [3, 4] f32, got 0.weight [3, "
                      "4] bf16; convert the file");
  save_safetensors(path, {{"0.weight", Tensor::zeros({3, 4}, DType::bf16)},
                          {"0.bias", Tensor::zeros({3}, DType::bf16)}});
  EXPECT_ERROR_OF(UsageError, load_weights(path, model->parameters()),
                  "--init " + path.string() +
                      ": the weights of another network: expected 0.weight [3, 4] f32, got "
                      "0.weight [3, 4] bf16; expected nothing, got 0.bias [3] bf16; choose "
                      "--hidden, --depth, --width, --no-bias to match");
}

TEST(Model, RefusesWeightsThatAreNotFinite) {
  const TemporaryDirectory dir;
  const auto path = dir / "w.safetensors";
  const auto model = make_mlp({{4, 3}, true}, 0, kCpu);
  for (const float odd : {std::nanf(""), -INFINITY}) {
    model->parameters()[1].data().data<float>()[2] = odd;
    save_weights(path, model->parameters());
    EXPECT_ERROR_OF(UsageError, load_weights(path, model->parameters()),
                    "--init " + path.string() +
                        ": expected finite numbers, got others in 0.bias: the training that it "
                        "comes from has diverged");
  }
}

}  // namespace
}  // namespace brigade::apps
