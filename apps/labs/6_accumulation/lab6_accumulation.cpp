// Lab 6: accumulate locally, synchronise once.
//
// A step of K micro-batches needs the sum of K N gradients, in any order: first over this rank's
// micro-batches, then once over the ranks. The first K-1 backwards of a step run inside a NoSync
// scope and only accumulate; the last one all-reduces the sum.
#include "apps/labs/common.h"

namespace brigade::labs {
namespace {

constexpr int kMicroBatches = 4;

/// The listener of lab 3, with a switch.
class SwitchedSync final : public AllReduceListener {
 public:
  using AllReduceListener::AllReduceListener;

  /// Backwards that start during its lifetime do not communicate. A scope instead of a setter, so
  /// that an exception or a `continue` cannot leave it switched on.
  class NoSync {
   public:
    explicit NoSync(SwitchedSync& sync) : sync_(sync) { ++sync_.depth_; }
    ~NoSync() { --sync_.depth_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    SwitchedSync& sync_;
  };

  /// Decides for the whole backward, so that the gradients of all parameters agree.
  void on_backward_begin() override { syncing_ = depth_ == 0; }

  void on_grad_ready(std::size_t index) override {
    if (syncing_) {
      works_.push_back(comm_.all_reduce(parameters_[index].grad(), parameters_[index].name()));
    }
  }

 private:
  int depth_ = 0;
  bool syncing_ = true;
};

}  // namespace

void run(dist::Communicator& comm, Recorder& trace) {
  const auto model = make_model();
  const std::vector<Variable> parameters = model->parameters();
  SwitchedSync sync(parameters, comm);
  optim::SGD optimizer(parameters, {.lr = kLearningRate});
  const int pieces = kMicroBatches * comm.size();
  Narrator narrate{comm};

  for (int step = 0; step < kSteps; ++step) {
    trace.start();
    optimizer.zero_grad();  // once per step: between micro-batches gradients accumulate
    // The objective is the mean over ranks and micro-batches, so backward starts from 1/(K N).
    const auto backward = [&](int micro) {
      const int piece = micro * comm.size() + comm.rank();
      const Variable loss = loss_of(*model, make_batch(step, piece));
      trace.forward_done();
      loss.backward(1.0 / pieces);
      trace.backward_done();
      narrate("  micro-batch {} of {}: {} collectives so far", micro + 1, kMicroBatches,
              comm.collectives());
    };
    {
      const SwitchedSync::NoSync scope(sync);
      for (int micro = 0; micro + 1 < kMicroBatches; ++micro) {
        backward(micro);
      }
    }
    backward(kMicroBatches - 1);
    narrate.silent = true;
    optimizer.step();
    trace.finish();
  }

  say(comm, "{} collectives per step; synchronising every micro-batch would take {}",
      comm.collectives() / kSteps, kMicroBatches * parameters.size());
  expect(comm.collectives() == kSteps * parameters.size(),
         "expected one collective per parameter and step, whatever the number of micro-batches");
  check_weights(parameters, comm, pieces);
}

}  // namespace brigade::labs
