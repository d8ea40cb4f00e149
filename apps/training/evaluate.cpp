#include "apps/training/evaluate.h"

#include <functional>
#include <numbers>
#include <numeric>

#include "autograd/grad_mode.h"
#include "core/ops.h"
#include "dist/comm/gather.h"
#include "nn/data/sampler.h"

namespace brigade::apps {

namespace {

/// Sums over samples; adding those of all ranks gives the whole data set's.
struct Sums {
  double loss = 0.0;
  double targets = 0.0;
  double correct = 0.0;
};

/// How many rows of x [..., classes] have their largest value (the first of equals) at the label.
double correct_rows(const Tensor& x, const Tensor& labels) {
  Tensor largest = Tensor::empty_like(x, labels.shape());
  Tensor index = Tensor::empty_like(labels);
  ops::reduce_max(x, ops::reduce_shape("evaluate", x.shape(), -1), largest, index);
  const auto chosen = index.to_vector<std::int64_t>();
  const auto right = labels.to_vector<std::int64_t>();
  return std::transform_reduce(chosen.begin(), chosen.end(), right.begin(), 0.0, std::plus(),
                               std::equal_to());
}

}  // namespace

Evaluation evaluate(nn::Module& model, nn::Loss& loss, const data::Dataset& dataset,
                    std::int64_t batch, dist::Communicator& comm, Device device) {
  const autograd::NoGradGuard no_grad;
  model.eval();
  const data::BatchGeometry geometry{
      .batch = batch, .accum = 1, .ranks = comm.size(), .rank = comm.rank()};
  data::DistributedSampler sampler(dataset.size(), geometry, /*seed=*/0, /*shuffle=*/false);
  Sums mine;
  for (std::int64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
    const data::Batch part = data::load_batch(dataset, sampler.micro_batch(step, 0), device);
    if (part.size() == 0) {
      continue;
    }
    const autograd::Variable prediction = model.forward(autograd::Variable(part.inputs));
    mine.loss += loss(prediction, part.targets).data().item() * static_cast<double>(part.size());
    mine.targets += static_cast<double>(part.targets.numel());
    if (dataset.classes()) {
      mine.correct += correct_rows(prediction.data(), part.targets);
    }
  }
  model.train();
  Sums all;
  for (const Sums& one : dist::all_gather_values(comm, mine)) {
    all.loss += one.loss;
    all.targets += one.targets;
    all.correct += one.correct;
  }
  const auto samples = static_cast<double>(dataset.size());
  Evaluation result;
  result.loss = all.loss / samples;
  if (dataset.classes()) {
    result.accuracy = all.correct / all.targets;
  }
  if (const double bytes = dataset.bytes_per_target(); bytes > 0.0) {
    result.bits_per_byte = result.loss / std::numbers::ln2 / bytes;
  }
  return result;
}

}  // namespace brigade::apps
