// Exercise 6: synchronise after every micro-batch. Complete prepare().
//
// Without no_sync, gradients are all-reduced after every micro-batch. But `grad` accumulates: at
// the second all-reduce it already contains, on every rank, the result of the first one.
#include "apps/labs/common.h"
#include "core/ops.h"

namespace brigade::labs {
namespace {

constexpr int kMicroBatches = 4;

/// Called before every backward of a step except the first. `grad` holds the synchronised sum of
/// the micro-batches so far, and backward adds to it.
void prepare([[maybe_unused]] const std::vector<Variable>& parameters,
             [[maybe_unused]] const dist::Communicator& comm) {
  // TODO: the next all-reduce adds this sum once per rank. Scale it beforehand so that it comes out
  // unchanged: ops::axpby (core/ops.h) computes y = alpha x + beta y.
}

}  // namespace

void run(dist::Communicator& comm, Recorder& /*trace*/) {
  const auto model = make_model();
  const std::vector<Variable> parameters = model->parameters();
  optim::SGD optimizer(parameters, {.lr = kLearningRate});
  const int pieces = kMicroBatches * comm.size();

  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    for (int micro = 0; micro < kMicroBatches; ++micro) {
      if (micro > 0) {
        prepare(parameters, comm);
      }
      const Variable loss = loss_of(*model, make_batch(step, micro * comm.size() + comm.rank()));
      loss.backward(1.0 / pieces);
      for (const Variable& parameter : parameters) {
        comm.blocking_all_reduce(parameter.grad(), parameter.name());
      }
    }
    optimizer.step();
  }

  expect(comm.collectives() == kSteps * kMicroBatches * parameters.size(),
         "expected every gradient to be synchronised after every micro-batch");
  check_weights(parameters, comm, pieces);
}

}  // namespace brigade::labs
