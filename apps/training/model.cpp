#include "apps/training/model.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/random.h"
#include "nn/linear.h"
#include "nn/relu.h"

namespace brigade::apps {

std::string MlpShape::description() const {
  return fmt::format("{}", fmt::join(widths, "-"));
}

std::unique_ptr<nn::Sequential> make_mlp(const MlpShape& shape, std::uint64_t seed, Device device) {
  BRIGADE_CHECK(shape.widths.size() >= 2,
                "make_mlp: expected at least an input and an output width, got ",
                shape.widths.size());
  manual_seed(seed);
  auto model = std::make_unique<nn::Sequential>();
  for (std::size_t layer = 0; layer + 1 < shape.widths.size(); ++layer) {
    if (layer > 0) {
      model->append(nn::ReLU());
    }
    model->append(nn::Linear(shape.widths[layer], shape.widths[layer + 1],
                             {.bias = shape.bias, .precision = shape.precision}));
  }
  model->to(device);
  return model;
}

nn::Loss* make_loss(const std::string& name) {
  if (name == "mse") {
    return nn::mse_loss;
  }
  BRIGADE_CHECK(name == "cross_entropy", "loss: expected mse or cross_entropy, got ", name);
  return nn::cross_entropy;
}

std::int64_t count_elements(const std::vector<autograd::Variable>& parameters) {
  std::int64_t count = 0;
  for (const autograd::Variable& parameter : parameters) {
    count += parameter.shape().numel();
  }
  return count;
}

}  // namespace brigade::apps
