// Lab 2: naive data parallelism.
//
// Equal weights stay equal if every rank applies the same update. So the ranks average their
// gradients between backward and the optimizer: one blocking all-reduce per parameter, one after
// the other.
#include "apps/labs/common.h"
#include "autograd/engine.h"
#include "optim/sgd.h"

namespace brigade::labs {
namespace {

void train(dist::Communicator& comm, Recorder& trace) {
  const auto model = make_model();
  const std::vector<Variable> parameters = model->parameters();
  optim::SGD optimizer(parameters, {.lr = kLearningRate});

  for (int step = 0; step < kSteps; ++step) {
    const Batch batch = make_batch(step, comm.rank());
    trace.start();
    optimizer.zero_grad();
    const Variable loss = loss_of(*model, batch);
    trace.forward_done();
    // An all-reduce adds, but the objective is the *mean* over the ranks. So every rank starts its
    // backward from 1/N instead of 1. This is free; dividing the sums afterwards would read and
    // write every gradient once more.
    autograd::backward(loss, {.grad_scale = 1.0 / comm.size()});

    // No rank computes during this loop.
    for (const Variable& parameter : parameters) {
      comm.blocking_all_reduce(parameter.grad(), parameter.name());
    }
    trace.backward_done();
    optimizer.step();
    trace.finish();
    say(comm, "step {}: loss {:.4f}, largest weight difference between ranks {:.6f}", step,
        mean_over_ranks(loss, comm), difference_between_ranks(parameters, comm));
  }

  say(comm, "{} collectives, {} per step: one for each parameter", comm.collectives(),
      comm.collectives() / kSteps);
  check_weights(parameters, comm, comm.size());
}

}  // namespace
}  // namespace brigade::labs

int main(int argc, char** argv) {
  return brigade::labs::run_lab("lab 2", brigade::labs::kQuiz, argc, argv, brigade::labs::train);
}
