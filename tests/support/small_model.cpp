#include "tests/support/small_model.h"

#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "core/ops.h"
#include "core/random.h"
#include "nn/linear.h"
#include "nn/relu.h"

namespace brigade::test {

std::unique_ptr<nn::Sequential> make_mlp(const std::vector<std::int64_t>& widths,
                                         std::uint64_t seed, Device device,
                                         autograd::Precision precision) {
  manual_seed(seed);
  auto model = std::make_unique<nn::Sequential>();
  for (std::size_t layer = 0; layer + 1 < widths.size(); ++layer) {
    if (layer > 0) {
      model->append(nn::ReLU());
    }
    model->append(nn::Linear(widths[layer], widths[layer + 1], {.precision = precision}));
  }
  model->to(device);
  return model;
}

Tensor data_rows(std::int64_t first_row, std::int64_t rows, std::int64_t cols, std::uint64_t seed,
                 Device device) {
  Tensor all = Tensor::empty({first_row + rows, cols});
  ops::uniform({.stream = {.seed = seed, .sequence = 7}, .low = -1.0, .high = 1.0}, all);
  return all.rows(first_row, rows).clone().to(device);
}

void backward_once(nn::Module& model, std::int64_t in, std::int64_t out) {
  const autograd::Variable prediction = model.forward(autograd::Variable(data_rows(0, 4, in, 3)));
  autograd::mse_loss(prediction, data_rows(0, 4, out, 4)).backward();
}

}  // namespace brigade::test
