// Exercise 5: ranks that finish in different orders. Repair on_grad_ready().
//
// The network has two towers. Odd ranks compute the right one first, as may happen when layers run
// on several threads. So gradients become ready in different orders on odd and even ranks.
#include "apps/labs/common.h"
#include "autograd/engine.h"
#include "autograd/functions/binary.h"
#include "autograd/hooks.h"
#include "dist/ddp/bucket.h"
#include "optim/sgd.h"

namespace brigade::labs {
namespace {

/// y = left(x) + right(x)
class Towers final : public nn::Module {
 public:
  explicit Towers(bool right_first) : right_first_(right_first) {
    register_module("left", *left_);
    register_module("right", *right_);
  }

  Variable forward(const Variable& x) override {
    const Variable first = (right_first_ ? right_ : left_)->forward(x);
    const Variable second = (right_first_ ? left_ : right_)->forward(x);
    return autograd::add(first, second);
  }

 private:
  bool right_first_;
  std::unique_ptr<nn::Module> left_ = make_model(1);
  std::unique_ptr<nn::Module> right_ = make_model(2);
};

class TowerSync final : public autograd::GradListener {
 public:
  TowerSync(const std::vector<Variable>& parameters, dist::Communicator& comm) : comm_(comm) {
    // Bucket 0: the right tower, bucket 1: the left one. Each tower has half of the parameters.
    dist::BucketPlan plan(2);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      plan[bucket_of(i, parameters)].push_back(i);
      handles_.push_back(parameters[i].attach_listener(*this, i));
    }
    buckets_ = dist::make_buckets(parameters, plan);
    parameters_ = parameters;
  }

  void on_backward_begin() override {
    missing_.assign(buckets_.size(), parameters_.size() / buckets_.size());
  }

  void on_grad_ready(std::size_t index) override {
    const std::size_t bucket = bucket_of(index, parameters_);
    // TODO: this launches buckets in the order in which they become full, which differs between
    // ranks. Ranks match all-reduces by call order alone, so this adds unrelated gradients.
    if (--missing_[bucket] == 0) {
      works_.push_back(comm_.all_reduce(buckets_[bucket].grads));
    }
  }

  void on_backward_end() override {
    for (const dist::Work& work : works_) {
      comm_.wait(work, kCpu);
    }
    works_.clear();
  }

 private:
  static std::size_t bucket_of(std::size_t index, const std::vector<Variable>& parameters) {
    return index < parameters.size() / 2 ? 1 : 0;
  }

  dist::Communicator& comm_;
  std::vector<Variable> parameters_;
  std::vector<dist::Bucket> buckets_;
  std::vector<autograd::HookHandle> handles_;
  std::vector<std::size_t> missing_;  // bucket -> gradients still to come in this backward
  std::vector<dist::Work> works_;     // in flight, in order of launch
};

void train(dist::Communicator& comm) {
  Towers model(/*right_first=*/comm.rank() % 2 == 1);
  const std::vector<Variable> parameters = model.parameters();
  const TowerSync sync(parameters, comm);
  optim::SGD optimizer(parameters, {.lr = kLearningRate});
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const Variable loss = loss_of(model, make_batch(step, comm.rank()));
    autograd::backward(loss, {.grad_scale = 1.0 / comm.size()});
    optimizer.step();
  }
  Towers fresh(/*right_first=*/false);
  check_weights(parameters, comm, fresh,
                std::vector<std::int64_t>(static_cast<std::size_t>(comm.size()), kRows));
}

}  // namespace
}  // namespace brigade::labs

int main(int argc, char** argv) {
  return brigade::labs::run_exercise("exercise 5", argc, argv, brigade::labs::train,
                                     "launch the buckets in the same order on all ranks");
}
