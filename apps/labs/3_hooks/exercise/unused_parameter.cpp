// Exercise 3: a parameter without a gradient. Complete on_grad_ready() and on_backward_end().
//
// A parameter that the loss does not depend on never becomes ready. If that happens on one rank
// only, the other ranks wait in its all-reduce for ever. The listener must throw an error that
// names the parameter when backward ends.
#include "apps/labs/common.h"
#include "autograd/engine.h"
#include "autograd/hooks.h"
#include "core/error.h"
#include "optim/sgd.h"

namespace brigade::labs {
namespace {

class CheckedSync final : public autograd::GradListener {
 public:
  CheckedSync(std::vector<Variable> parameters, dist::Communicator& comm)
      : parameters_(std::move(parameters)), comm_(comm) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      handles_.push_back(parameters_[i].attach_listener(*this, i));
    }
  }

  // TODO: remember that parameter `index` is ready.
  void on_grad_ready(std::size_t index) override {
    works_.push_back(comm_.all_reduce(parameters_[index].grad()));
  }

  void on_backward_end() override {
    for (const dist::Work& work : works_) {
      comm_.wait(work, kCpu);
    }
    works_.clear();
    // TODO: throw Error(...) with the names of the parameters that were not ready. Reset the record
    // first: the next backward starts from nothing.
  }

 private:
  std::vector<Variable> parameters_;
  dist::Communicator& comm_;
  std::vector<autograd::HookHandle> handles_;
  std::vector<dist::Work> works_;
};

void train(nn::Module& model, dist::Communicator& comm) {
  const std::vector<Variable> parameters = model.parameters();
  const CheckedSync sync(parameters, comm);
  optim::SGD optimizer(parameters, {.lr = kLearningRate});
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const Variable loss = loss_of(model, make_batch(step, comm.rank()));
    autograd::backward(loss, {.grad_scale = 1.0 / comm.size()});
    optimizer.step();
  }
  check_weights(parameters, comm, comm.size());
}

/// The error of a backward in which one of the listener's parameters gets no gradient.
std::string complaint(nn::Module& model, dist::Communicator& comm) {
  std::vector<Variable> parameters = model.parameters();
  parameters.emplace_back(Tensor::zeros({3}), /*requires_grad=*/true, "forgotten.bias");
  const CheckedSync sync(parameters, comm);
  try {
    autograd::backward(loss_of(model, make_batch(0, comm.rank())));
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

void run(dist::Communicator& comm) {
  const auto model = make_model();
  train(*model, comm);
  const std::string said = complaint(*model, comm);
  expect(said.find("forgotten.bias") != std::string::npos,
         "expected an error that names forgotten.bias, backward said " + said);
  say(comm, "backward said: {}", said);
}

}  // namespace
}  // namespace brigade::labs

int main(int argc, char** argv) {
  return brigade::labs::run_exercise(
      "exercise 3", argc, argv, brigade::labs::run,
      "note which gradients have come, and throw in on_backward_end when one is missing");
}
