// Solution 6: synchronised after every micro-batch, and every one counted once.
//
// Without no_sync, gradients are synchronised after every micro-batch. But `grad` accumulates: the
// second all-reduce finds in it, on every rank, the sum over the ranks that the first has left.
#include "apps/labs/common.h"
#include "autograd/engine.h"
#include "optim/sgd.h"

namespace brigade::labs {
namespace {

constexpr int kMicroBatches = 4;

/// Called before every backward of a step but the first: `grad` holds the synchronised sum of the
/// micro-batches so far, and backward is going to add to it. Shrunk to 1/N it comes out of the next
/// sum over N ranks as it was. The factor is the beta of backward's GEMM, so it costs nothing;
/// dist/ddp/grad_averager.cpp does the same.
void prepare(const std::vector<Variable>& parameters, const dist::Communicator& comm) {
  for (const Variable& parameter : parameters) {
    parameter.grad_state()->carry = 1.0 / comm.size();
  }
}

void train(dist::Communicator& comm) {
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
      autograd::backward(loss, {.seed = 1.0 / pieces});
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

}  // namespace
}  // namespace brigade::labs

int main(int argc, char** argv) {
  return brigade::labs::run_exercise("solution 6", argc, argv, brigade::labs::train);
}
