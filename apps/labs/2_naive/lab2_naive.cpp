// Lab 2: naive data parallelism.
//
// Equal weights stay equal if every rank applies the same update. So the ranks average their
// gradients between backward and the optimizer: one blocking all-reduce per parameter, one after
// the other.
#include "apps/labs/common.h"

namespace brigade::labs {

void run(dist::Communicator& comm, Recorder& trace) {
  const auto model = make_model();
  const std::vector<Variable> parameters = model->parameters();

  train(*model, comm, trace, [&](const Variable& loss) {
    // An all-reduce adds, but the objective is the *mean* over the ranks. So every rank starts its
    // backward from 1/N instead of 1. This is free; dividing the sums afterwards would read and
    // write every gradient once more.
    loss.backward(1.0 / comm.size());

    // No rank computes during this loop.
    for (const Variable& parameter : parameters) {
      comm.blocking_all_reduce(parameter.grad(), parameter.name());
    }
  });

  say(comm, "{} collectives, {} per step: one for each parameter", comm.collectives(),
      comm.collectives() / kSteps);
  check_weights(parameters, comm, comm.size());
}

}  // namespace brigade::labs
