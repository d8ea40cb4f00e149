// Lab 3: a hook per parameter.
//
// Backward knows the last layer's gradients long before the first layer's. Nobody has to wait for
// its end: the engine calls on_grad_ready() the moment a gradient is final, and an asynchronous
// all-reduce can carry it away while backward computes the next one.
#include "apps/labs/common.h"
#include "autograd/engine.h"
#include "autograd/hooks.h"
#include "optim/sgd.h"

namespace brigade::labs {
namespace {

class PerParameterSync final : public autograd::GradListener {
 public:
  PerParameterSync(std::vector<Variable> parameters, dist::Communicator& comm)
      : parameters_(std::move(parameters)), comm_(comm), narrate_(comm) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      handles_.push_back(parameters_[i].attach_listener(*this, i));
    }
  }

  /// Called inside backward, between two kernels.
  void on_grad_ready(std::size_t index) override {
    const Variable& parameter = parameters_[index];
    // Returns at once: the sum is made by the communicator's own thread. Until wait() the gradient
    // belongs to it, and nobody here may read or write it.
    works_.push_back(comm_.all_reduce(parameter.grad(), parameter.name()));
    narrate_("  {} is ready: all-reduce {} starts", parameter.name(), works_.size());
  }

  void on_backward_end() override {
    for (const dist::Work& work : works_) {
      finished_early_ += work.done().done() ? 1 : 0;
    }
    narrate_("  backward has ended");
    // Only now. A wait inside on_grad_ready would be lab 2 again, in another order.
    for (const dist::Work& work : works_) {
      comm_.wait(work, kCpu);
    }
    works_.clear();
    narrate_.fall_silent();
  }

  /// How many all-reduces so far had nothing left to wait for when their backward ended.
  int finished_early() const { return finished_early_; }

 private:
  std::vector<Variable> parameters_;
  dist::Communicator& comm_;
  std::vector<autograd::HookHandle> handles_;
  std::vector<dist::Work> works_;  // in flight, in order of launch
  int finished_early_ = 0;
  Narrator narrate_;
};

void train(dist::Communicator& comm, Recorder& trace) {
  const auto model = make_model();
  const std::vector<Variable> parameters = model->parameters();
  const PerParameterSync sync(parameters, comm);
  optim::SGD optimizer(parameters, {.lr = kLearningRate});

  for (int step = 0; step < kSteps; ++step) {
    const Batch batch = make_batch(step, comm.rank());
    trace.start();
    optimizer.zero_grad();
    const Variable loss = loss_of(*model, batch);
    trace.forward_done();
    autograd::backward(loss, {.seed = 1.0 / comm.size()});  // and all-reduces, through the hooks
    trace.backward_done();
    optimizer.step();
    trace.finish();
    say(comm, "step {}: loss {:.4f}", step, mean_over_ranks(loss, comm));
  }

  say(comm, "{} collectives per step: one for each parameter", comm.collectives() / kSteps);
  say(comm, "{} of {} had finished when their backward ended", sync.finished_early(),
      comm.collectives());
  expect(comm.collectives() == kSteps * parameters.size(),
         "expected one collective per parameter and step");
  check_weights(parameters, comm, comm.size());
}

}  // namespace
}  // namespace brigade::labs

int main(int argc, char** argv) {
  return brigade::labs::run_lab("lab 3", brigade::labs::kQuiz, argc, argv, brigade::labs::train);
}
