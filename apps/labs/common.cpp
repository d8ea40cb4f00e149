#include "apps/labs/common.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/ops.h"
#include "dist/comm/gather.h"

namespace brigade::labs {
namespace {

constexpr std::int64_t kIn = 8;
constexpr std::int64_t kHidden = 128;
constexpr std::int64_t kOut = 4;
constexpr std::uint64_t kDataSeed = 2;
/// Ranks add in another order than one process. Real mistakes are a thousand times larger.
constexpr double kRounding = 1e-5;

Tensor uniform(std::uint32_t sequence, const Shape& shape) {
  Tensor values = Tensor::empty(shape);
  ops::uniform({.stream = {.seed = kDataSeed, .sequence = sequences::kSynthetic + sequence},
                .low = -1.0,
                .high = 1.0},
               values);
  return values;
}

/// max |a - b|; infinite if a number is NaN, so that NaN never counts as equal.
double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = std::max(largest, std::isnan(difference) ? INFINITY : difference);
  }
  return largest;
}

/// Trains `model` on the global batch. The gradient of its mean loss is the sum of the pieces'
/// gradients, each weighted by its share of the samples.
void train_alone(nn::Module& model, const std::vector<std::int64_t>& rows_of_pieces) {
  const auto all_rows = static_cast<double>(
      std::accumulate(rows_of_pieces.begin(), rows_of_pieces.end(), std::int64_t{0}));
  optim::SGD optimizer(model.parameters(), {.lr = kLearningRate});
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    for (std::size_t piece = 0; piece < rows_of_pieces.size(); ++piece) {
      const std::int64_t rows = rows_of_pieces[piece];
      const Variable loss = loss_of(model, make_batch(step, static_cast<int>(piece), rows));
      loss.backward(static_cast<double>(rows) / all_rows);
    }
    optimizer.step();
  }
}

}  // namespace

std::unique_ptr<nn::Module> make_model(std::uint64_t seed) {
  manual_seed(seed);
  return std::make_unique<nn::Sequential>(nn::Linear(kIn, kHidden), nn::ReLU(),
                                          nn::Linear(kHidden, kHidden), nn::ReLU(),
                                          nn::Linear(kHidden, kOut));
}

Batch make_batch(int step, int piece, std::int64_t rows) {
  constexpr std::uint32_t kPiecesPerStep = 1U << 16U;
  const auto sequence = static_cast<std::uint32_t>(step) * kPiecesPerStep;
  const Tensor x = uniform(1 + sequence + static_cast<std::uint32_t>(piece), {rows, kIn});
  // The function to learn is linear, and the same in every step and on every rank.
  const Tensor weights = uniform(0, {kOut, kIn});
  Tensor target = Tensor::empty({rows, kOut});
  ops::linear(x, weights, Tensor(), target);
  return {Variable(x), target};
}

Variable loss_of(nn::Module& model, const Batch& batch) {
  return nn::mse_loss(model.forward(batch.x), batch.target);
}

void train(nn::Module& model, dist::Communicator& comm, Recorder& trace,
           const std::function<void(const Variable& loss)>& backward, std::int64_t rows) {
  const std::vector<Variable> parameters = model.parameters();
  optim::SGD optimizer(parameters, {.lr = kLearningRate});
  for (int step = 0; step < kSteps; ++step) {
    const Batch batch = make_batch(step, comm.rank(), rows);
    trace.start();
    optimizer.zero_grad();
    const Variable loss = loss_of(model, batch);
    trace.forward_done();
    backward(loss);
    trace.backward_done();
    optimizer.step();
    trace.finish();
    say_step(step, loss, parameters, comm);
  }
}

void say_step(int step, const Variable& loss, const std::vector<Variable>& parameters,
              dist::Communicator& comm) {
  const std::vector<double> losses = dist::all_gather_values(comm, loss.data().item());
  say(comm, "step {}: loss {:.4f}, largest weight difference between ranks {:.6f}", step,
      std::accumulate(losses.begin(), losses.end(), 0.0) / comm.size(),
      difference_between_ranks(parameters, comm));
}

double difference_between_ranks(const std::vector<Variable>& parameters, dist::Communicator& comm) {
  const std::vector<float> mine = autograd::values_of(parameters);
  const std::vector<float> first = dist::broadcast_from_rank0(comm, mine);
  return std::ranges::max(dist::all_gather_values(comm, largest_difference(mine, first)));
}

void check_weights(const std::vector<Variable>& parameters, dist::Communicator& comm,
                   const std::vector<std::int64_t>& rows_of_pieces, nn::Module& fresh) {
  const double between = difference_between_ranks(parameters, comm);
  expect(
      between == 0.0,
      fmt::format("expected equal weights on all ranks, but they differ, by up to {:g}", between));
  say(comm, "weights equal on all ranks");
  train_alone(fresh, rows_of_pieces);
  const double from_one =
      largest_difference(autograd::values_of(parameters), autograd::values_of(fresh.parameters()));
  expect(
      from_one <= kRounding,
      fmt::format(
          "expected the weights of one process on the whole batch, but they differ, by up to {:g}",
          from_one));
  say(comm, "weights equal to one process on the whole batch (largest difference {:.0e})",
      from_one);
}

void check_weights(const std::vector<Variable>& parameters, dist::Communicator& comm, int pieces) {
  check_weights(parameters, comm,
                std::vector<std::int64_t>(static_cast<std::size_t>(pieces), kRows), *make_model());
}

void expect(bool holds, const std::string& message) {
  if (!holds) {
    throw VerificationError(message);
  }
}

AllReduceListener::AllReduceListener(std::vector<Variable> parameters, dist::Communicator& comm)
    : parameters_(std::move(parameters)), comm_(comm) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    handles_.push_back(parameters_[i].attach_listener(*this, i));
  }
}

void AllReduceListener::on_backward_end() {
  for (const dist::Work& work : works_) {
    comm_.wait(work);
  }
  works_.clear();
}

}  // namespace brigade::labs
