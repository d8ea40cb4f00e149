#include "apps/training/model.h"

#include <gtest/gtest.h>

#include <string>

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
  const auto model = make_network({{4, 3, 2}, true}, 0, kCpu);
  EXPECT_EQ(names(*model), (std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"}));
  EXPECT_EQ(model->parameters()[0].shape(), Shape({3, 4}));
  EXPECT_EQ(count_elements(model->parameters()), 4 * 3 + 3 + 3 * 2 + 2);
  EXPECT_EQ((ModelShape{{4, 3, 2}, true}.description()), "4-3-2");
}

TEST(Model, WithoutBiasTheWeightsStartTheSame) {
  const auto with = make_network({{4, 3, 2}, true}, 7, kCpu);
  const auto without = make_network({{4, 3, 2}, false}, 7, kCpu);
  EXPECT_EQ(names(*without), (std::vector<std::string>{"0.weight", "2.weight"}));
  EXPECT_EQ(with->parameters()[2].data().to_vector<float>(),
            without->parameters()[1].data().to_vector<float>());
}

}  // namespace
}  // namespace brigade::apps
