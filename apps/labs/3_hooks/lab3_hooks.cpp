// Lab 3: a hook per parameter.
//
// Backward computes the last layer's gradients first. The engine calls on_grad_ready() as soon as a
// gradient is final. An asynchronous all-reduce can then send it while backward computes the next
// one.
#include "apps/labs/common.h"

namespace brigade::labs {
namespace {

class PerParameterSync final : public autograd::GradListener {
 public:
  PerParameterSync(std::vector<Variable> parameters, dist::Communicator& comm)
      : parameters_(std::move(parameters)), comm_(comm), narrate_{comm} {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      handles_.push_back(parameters_[i].attach_listener(*this, i));
    }
  }

  /// Called during backward, between two kernels, on the thread of backward.
  void on_grad_ready(std::size_t index) override {
    const Variable& parameter = parameters_[index];
    // Returns at once: the communicator's own thread computes the sum. Until wait() the
    // communicator owns the gradient, so this thread must neither read nor write it.
    works_.push_back(comm_.all_reduce(parameter.grad(), parameter.name()));
    narrate_("  {} is ready: all-reduce {} starts", parameter.name(), works_.size());
  }

  void on_backward_end() override {
    for (const dist::Work& work : works_) {
      finished_early_ += work.done_event().done() ? 1 : 0;
    }
    narrate_("  backward has ended");
    // A wait inside on_grad_ready would block backward, as in lab 2.
    for (const dist::Work& work : works_) {
      comm_.wait(work);
    }
    works_.clear();
    narrate_.silent = true;
  }

  /// The number of all-reduces so far that had finished when their backward ended.
  int finished_early() const { return finished_early_; }

 private:
  std::vector<Variable> parameters_;
  dist::Communicator& comm_;
  std::vector<autograd::ListenerHandle> handles_;
  std::vector<dist::Work> works_;  // in flight, in order of launch
  int finished_early_ = 0;
  Narrator narrate_;
};

}  // namespace

void run(dist::Communicator& comm, Recorder& trace) {
  const auto model = make_model();
  const std::vector<Variable> parameters = model->parameters();
  const PerParameterSync sync(parameters, comm);

  train(*model, comm, trace, [&](const Variable& loss) {
    loss.backward(1.0 / comm.size());  // all-reduces through the hooks
  });

  say(comm, "{} collectives per step: one for each parameter", comm.collectives() / kSteps);
  say(comm, "{} of {} had finished when their backward ended", sync.finished_early(),
      comm.collectives());
  expect(comm.collectives() == kSteps * parameters.size(),
         "expected one collective per parameter and step");
  check_weights(parameters, comm, comm.size());
}

}  // namespace brigade::labs
