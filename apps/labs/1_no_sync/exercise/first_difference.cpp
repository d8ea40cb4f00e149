// Exercise 1: find the step after which ranks first differ, and the parameter. Repair
// first_difference().
//
// All ranks train on the same samples, so their weights stay equal without communication, until the
// last rank misses an update in one step. A check must report it in that step and name the
// parameter: a few steps later all parameters differ and the cause is lost.
#include <algorithm>
#include <span>

#include "apps/labs/common.h"
#include "dist/comm/gather.h"

namespace brigade::labs {
namespace {

constexpr int kMistakeStep = 4;

/// The name of the first parameter whose bits differ between ranks; empty if all are equal.
/// `loss`: the loss of this step, computed before the update. Collective.
std::string first_difference([[maybe_unused]] const std::vector<Variable>& parameters,
                             [[maybe_unused]] const Variable& loss, dist::Communicator& comm) {
  // TODO: the losses were computed before the update, so they are equal one step too long. Compare
  // the weights, parameter by parameter: `parameter.data().to_vector<float>()` copies the values,
  // comm.all_gather_bytes returns the bytes of all ranks in rank order. All ranks must call it
  // the same number of times, or one waits forever.
  const std::vector<double> losses = dist::all_gather_values(comm, loss.data().item());
  return losses.front() == losses.back() ? "" : "the loss";
}

}  // namespace

void run(dist::Communicator& comm, Recorder& /*trace*/) {
  const auto model = make_model();
  const std::vector<Variable> parameters = model->parameters();
  optim::SGD optimizer(parameters, {.lr = kLearningRate});
  std::string found = "nothing";

  for (int step = 0; step < kSteps && found == "nothing"; ++step) {
    optimizer.zero_grad();
    const Variable loss = loss_of(*model, make_batch(step, 0));
    loss.backward();
    if (step == kMistakeStep && comm.rank() + 1 == comm.size()) {
      parameters[3].grad().zero();  // 2.bias and 4.weight miss one update
      parameters[4].grad().zero();
    }
    optimizer.step();
    const std::string name = first_difference(parameters, loss, comm);
    if (!name.empty()) {
      found = fmt::format("{} after step {}", name, step);
    }
  }

  expect(found == fmt::format("2.bias after step {}", kMistakeStep),
         fmt::format("expected 2.bias after step {} to be the first to differ, got {}",
                     kMistakeStep, found));
  say(comm, "the first to differ between ranks: {}", found);
}

}  // namespace brigade::labs
