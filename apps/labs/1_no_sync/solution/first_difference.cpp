// Solution 1: the first step after which ranks differ, and where.
//
// All ranks train on the same samples, so without a word to each other they stay equal, until the
// last rank makes a mistake of its own in one step. A check has to notice it in that very step and
// to name the parameter: ten steps later everything differs and nobody knows why.
#include <algorithm>
#include <span>

#include "apps/labs/common.h"
#include "autograd/engine.h"
#include "core/error.h"
#include "optim/sgd.h"

namespace brigade::labs {
namespace {

constexpr int kMistakeStep = 4;

/// The name of the first parameter that is not the same bits on all ranks; empty when all are.
/// Collective: the ranks see the same bytes and leave the loop together.
std::string first_difference(const std::vector<Variable>& parameters, dist::Communicator& comm) {
  for (const Variable& parameter : parameters) {
    const std::vector<float> mine = parameter.data().to_vector<float>();
    const std::vector<std::byte> all = comm.all_gather(std::as_bytes(std::span(mine)));
    const auto bytes = static_cast<std::ptrdiff_t>(all.size()) / comm.size();
    // Equal neighbours all along: moved by one rank, the bytes are the same.
    if (!std::equal(all.begin() + bytes, all.end(), all.begin())) {
      return parameter.name();
    }
  }
  return "";
}

void train(dist::Communicator& comm) {
  const auto model = make_model();
  const std::vector<Variable> parameters = model->parameters();
  optim::SGD optimizer(parameters, {.lr = kLearningRate});
  std::string found = "nothing";

  for (int step = 0; step < kSteps && found == "nothing"; ++step) {
    optimizer.zero_grad();
    autograd::backward(loss_of(*model, make_batch(step, 0)));
    if (step == kMistakeStep && comm.rank() + 1 == comm.size()) {
      parameters[3].grad().zero();  // 2.bias misses one update
    }
    optimizer.step();
    const std::string name = first_difference(parameters, comm);
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
  return brigade::labs::run_exercise("solution 1", argc, argv, brigade::labs::train);
}
