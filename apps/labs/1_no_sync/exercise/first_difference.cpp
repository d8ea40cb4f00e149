// Exercise 1: find the first step after which ranks differ, and where. Repair first_difference().
//
// All ranks train on the same samples, so without a word to each other they stay equal, until the
// last rank makes a mistake of its own in one step. A check has to notice it in that very step and
// to name the parameter: ten steps later everything differs and nobody knows why.
#include "apps/labs/common.h"
#include "autograd/engine.h"
#include "core/error.h"
#include "optim/sgd.h"

namespace brigade::labs {
namespace {

constexpr int kMistakeStep = 4;

/// The name of the first parameter that is not the same bits on all ranks; empty when all are.
/// Collective. `loss`: of this step, computed before the update.
std::string first_difference([[maybe_unused]] const std::vector<Variable>& parameters,
                             const Variable& loss, dist::Communicator& comm) {
  // TODO: equal losses do not show that the weights behind them are still equal. Compare these, one
  // parameter after the other: comm.all_gather returns every rank's bytes in rank order, and
  // `parameter.data().to_vector<float>()` is what they are made of.
  const std::vector<double> losses = dist::all_gather_values(comm, loss.data().item());
  return losses.front() == losses.back() ? "" : "the loss";
}

void train(dist::Communicator& comm) {
  const auto model = make_model();
  const std::vector<Variable> parameters = model->parameters();
  optim::SGD optimizer(parameters, {.lr = kLearningRate});
  std::string found = "nothing";

  for (int step = 0; step < kSteps && found == "nothing"; ++step) {
    optimizer.zero_grad();
    const Variable loss = loss_of(*model, make_batch(step, 0));
    autograd::backward(loss);
    if (step == kMistakeStep && comm.rank() + 1 == comm.size()) {
      parameters[3].grad().zero();  // 2.bias misses one update
    }
    optimizer.step();
    const std::string name = first_difference(parameters, loss, comm);
    if (!name.empty()) {
      found = concat(name, " after step ", step);
    }
  }

  expect(found == concat("2.bias after step ", kMistakeStep),
         concat("expected 2.bias after step ", kMistakeStep, " to be the first to differ, got ",
                found));
  say(comm, "the first to differ between ranks: {}", found);
}

}  // namespace
}  // namespace brigade::labs

int main(int argc, char** argv) {
  return brigade::labs::run_exercise("exercise 1", argc, argv, brigade::labs::train,
                                     "compare the weights of all ranks, bit by bit");
}
