#include "tests/support/small_training.h"

#include <cmath>

#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "core/error.h"
#include "optim/sgd.h"
#include "tests/support/small_model.h"

namespace brigade::test {
namespace {

constexpr std::int64_t kIn = 6;
constexpr std::int64_t kOut = 3;
constexpr std::int64_t kGlobalBatch = 48;

}  // namespace

std::vector<float> train(dist::Communicator& comm, const TrainingRun& run) {
  const auto model = make_mlp({kIn, 16, 8, kOut}, 1, run.device);
  const std::vector<autograd::Variable> parameters = model->parameters();
  dist::GradAverager parallel(
      parameters, comm, {.mode = run.mode, .bucket_bytes = run.bucket_bytes, .hook = run.hook});
  optim::SGD optimizer(parameters, {.lr = 0.1, .momentum = 0.9});
  const std::int64_t rows = kGlobalBatch / comm.size() / run.accum;
  BRIGADE_CHECK(rows * comm.size() * run.accum == kGlobalBatch,
                "train: 48 rows do not divide evenly");

  for (int step = 0; step < run.steps; ++step) {
    optimizer.zero_grad();
    for (int micro = 0; micro < run.accum; ++micro) {
      const std::int64_t first = step * kGlobalBatch + (micro * comm.size() + comm.rank()) * rows;
      const Tensor x = data_rows(first, rows, kIn, 3, run.device);
      const Tensor target = data_rows(first, rows, kOut, 4, run.device);
      auto scope = parallel.no_sync();
      if (!run.no_sync || micro + 1 == run.accum) {
        scope.reset();
      }
      autograd::mse_loss(model->forward(autograd::Variable(x)), target).backward(1.0 / run.accum);
    }
    optimizer.step();
  }

  parallel.verify_parameters_equal();
  return autograd::values_of(parameters);
}

double relative_l2(const std::vector<float>& a, const std::vector<float>& b) {
  BRIGADE_CHECK(a.size() == b.size(), "relative_l2: {} and {} values", a.size(), b.size());
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

}  // namespace brigade::test
