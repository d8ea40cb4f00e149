#include "apps/training/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/random.h"
#include "nn/linear.h"
#include "nn/relu.h"

namespace brigade::apps {

std::string ModelShape::description() const {
  return gpt ? fmt::format("GPT-2, {} layers of width {}, {} heads, context {}, vocabulary {}",
                           gpt->layers, gpt->width, gpt->heads, gpt->context, gpt->vocabulary)
             : fmt::format("{}", fmt::join(widths, "-"));
}

std::int64_t ModelShape::widest() const {
  return gpt ? tokens() * std::max(4 * gpt->width, gpt->vocabulary) : std::ranges::max(widths);
}

double ModelShape::flops_per_token(std::int64_t parameters) const {
  const std::int64_t multiplied = parameters - gpt->context * gpt->width;  // positions are added
  return 6.0 * static_cast<double>(multiplied) +
         12.0 * static_cast<double>(gpt->layers * gpt->width * tokens());
}

std::unique_ptr<nn::Module> make_network(const ModelShape& shape, std::uint64_t seed,
                                         Device device) {
  if (!shape.gpt) {
    return make_mlp(shape, seed, device);
  }
  manual_seed(seed);
  auto model = std::make_unique<nn::GPT>(*shape.gpt);
  model->to(device);
  return model;
}

std::unique_ptr<nn::Sequential> make_mlp(const ModelShape& shape, std::uint64_t seed,
                                         Device device) {
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
