#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "autograd/functions/dropout.h"
#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "core/random.h"
#include "dist/checkpoint/checkpoints.h"
#include "dist/overlap/in_flight_updates.h"
#include "dist/sharding/sharded_updates.h"
#include "nn/data/loader.h"
#include "nn/data/synthetic.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/support/small_model.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {

namespace fs = std::filesystem;
using autograd::Variable;

inline constexpr std::int64_t kGlobalBatch = 12;
inline constexpr std::int64_t kSamples = 40;  // so an epoch has a batch that is filled up

struct Training {
  SyncMode mode = SyncMode::overlap;
  std::function<std::shared_ptr<CommHook>()> hook = [] {
    return std::make_shared<PlainAllReduce>();
  };
  bool adam = false;
  bool cross_step = false;
  bool sharded = false;  ///< the ranks share the optimizer
  bool dropout = false;
  int accum = 1;
  bool rebuilt = false;  ///< buckets change after the first step
  CheckpointOptions checkpoints = {};
  std::int64_t steps = 9;  ///< to end after, counted from the very first
};

class ThreadRank {
 public:
  explicit ThreadRank(Communicator& comm) : comm_(comm) {}
  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }
  Device device() const { return kCpu; }

 private:
  Communicator& comm_;
};

/// An MLP with a mask between its two halves. `backwards`: registered in another order than used,
/// so the buckets are rebuilt after the first step.
class Model : public nn::Module {
 public:
  explicit Model(bool drops, bool backwards = false) : drops_(drops) {
    if (!backwards) {
      register_module("first", *first_);
    }
    register_module("second", *second_);
    if (backwards) {
      register_module("first", *first_);
    }
  }
  Variable forward(const Variable& x) override {
    const Variable hidden = first_->forward(x);
    return second_->forward(drops_ ? autograd::dropout(hidden, 0.25) : hidden);
  }

 private:
  std::unique_ptr<nn::Sequential> first_ = test::make_mlp({6, 16, 8}, 1);
  std::unique_ptr<nn::Sequential> second_ = test::make_mlp({8, 16, 3}, 2);
  bool drops_;
};

/// Trains as a user's program does, from a checkpoint in `directory` if there is one, and returns
/// the weights of rank 0. `when_done`: called on every rank after each step.
using AfterStep = std::function<void(std::int64_t step)>;
inline std::vector<float> train(
    int ranks, const fs::path& directory, const Training& training,
    const AfterStep& when_done = [](std::int64_t) {}) {
  const std::shared_ptr<const data::Dataset> dataset =
      data::make_synthetic({.in = 6, .out = 3, .classes = false, .seed = 5}, kSamples).train;
  std::vector<float> weights;
  test::thread_world(ranks, [&](Communicator& comm) {
    manual_seed(11);
    Model model(training.dropout, training.rebuilt);
    std::unique_ptr<optim::Optimizer> optimizer;
    if (training.adam) {
      optimizer = std::make_unique<optim::Adam>(model.parameters());
    } else {
      optimizer = std::make_unique<optim::SGD>(model.parameters(),
                                               optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
    }
    DataParallel<nn::Module> ddp(model, comm,
                                 {.mode = training.mode,
                                  .bucket_bytes = 600,
                                  .hook = training.sharded ? shard(*optimizer) : training.hook()});
    data::Loader loader(dataset, ThreadRank(comm), {.batch = kGlobalBatch / comm.size()});
    Checkpoints checkpoints(directory, ddp, *optimizer, loader, training.checkpoints);
    std::optional<InFlightUpdates> in_flight;
    if (training.cross_step) {
      in_flight.emplace(ddp.averager(), calls_of(*optimizer), UpdateDeadline::next_read, 512);
    }
    int micro = 0;
    for (std::int64_t epoch = 0; checkpoints.step() < training.steps; ++epoch) {
      for (const auto& [x, y] : loader.epoch(epoch)) {
        if (checkpoints.step() == training.steps) {
          break;
        }
        if (micro == 0) {
          optimizer->zero_grad();
        }
        autograd::mse_loss(ddp(Variable(x)), y).backward();
        if (micro = (micro + 1) % training.accum; micro != 0) {
          continue;
        }
        if (!in_flight) {
          optimizer->step();
        }
        when_done(checkpoints.step() + 1);
        checkpoints.after_step();
      }
    }
    in_flight.reset();
    ddp.verify_parameters_equal();
    if (comm.rank() == 0) {
      weights = autograd::values_of(model.parameters());
    }
  });
  return weights;
}

}  // namespace brigade::dist
