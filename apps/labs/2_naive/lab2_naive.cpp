// Lab 2: naive data parallelism.
//
// Equal weights stay equal when every rank applies the same update. So between backward and the
// optimizer the ranks average their gradients: one all-reduce per parameter, one after the other,
// each waited for before the next begins.
#include "apps/labs/common.h"
#include "autograd/engine.h"
#include "optim/sgd.h"

namespace brigade::labs {
namespace {

void train(dist::Communicator& comm) {
  const auto model = make_model();
  const std::vector<Variable> parameters = model->parameters();
  optim::SGD optimizer(parameters, {.lr = kLearningRate});

  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const Variable loss = loss_of(*model, make_batch(step, comm.rank()));
    // An all-reduce computes sums. The objective is the *mean* over the ranks, so every rank starts
    // its backward from 1/N instead of 1, and the sum of these gradients is their average. It costs
    // nothing; dividing afterwards would read and write every gradient once more.
    autograd::backward(loss, {.seed = 1.0 / comm.size()});

    // From here to the end of the loop nobody computes.
    for (const Variable& parameter : parameters) {
      comm.blocking_all_reduce(parameter.grad(), parameter.name());
    }
    optimizer.step();
    say(comm, "step {}: loss {:.4f}, largest weight difference between ranks {:.6f}", step,
        mean_over_ranks(loss, comm), difference_between_ranks(parameters, comm));
  }

  say(comm, "{} collectives, {} per step: one for each parameter", comm.collectives(),
      comm.collectives() / kSteps);
  check_weights(parameters, comm, comm.size());
}

}  // namespace
}  // namespace brigade::labs

int main() {
  return brigade::labs::run_lab("lab 2", brigade::labs::train);
}
