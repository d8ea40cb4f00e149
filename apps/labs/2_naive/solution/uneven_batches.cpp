// Solution 2: batches of different sizes. A rank counts as much as it has samples.
//
// Rank r has 4096 + 1024 r samples per step, as at the end of an epoch or on hosts of different
// speed. All ranks together must still learn what one process learns from all these samples.
#include "apps/labs/common.h"
#include "autograd/engine.h"
#include "optim/sgd.h"

namespace brigade::labs {
namespace {

std::int64_t rows_of(int rank) {
  return kRows + 1024 * rank;
}

/// The factor on the gradient of this rank's *mean* loss, so that the sum over the ranks is the
/// gradient of the mean over all samples.
double weight_of(std::int64_t rows, dist::Communicator& comm) {
  double all_rows = 0.0;
  for (const std::int64_t others : dist::all_gather_values(comm, rows)) {
    all_rows += static_cast<double>(others);
  }
  return static_cast<double>(rows) / all_rows;
}

void train(dist::Communicator& comm) {
  const auto model = make_model();
  const std::vector<Variable> parameters = model->parameters();
  optim::SGD optimizer(parameters, {.lr = kLearningRate});

  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const std::int64_t rows = rows_of(comm.rank());
    const Variable loss = loss_of(*model, make_batch(step, comm.rank(), rows));
    autograd::backward(loss, {.grad_scale = weight_of(rows, comm)});
    for (const Variable& parameter : parameters) {
      comm.blocking_all_reduce(parameter.grad(), parameter.name());
    }
    optimizer.step();
  }

  check_weights(parameters, comm, *make_model(),
                dist::all_gather_values(comm, rows_of(comm.rank())));
}

}  // namespace
}  // namespace brigade::labs

int main(int argc, char** argv) {
  return brigade::labs::run_exercise("solution 2", argc, argv, brigade::labs::train);
}
