#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "autograd/hooks.h"
#include "autograd/variable.h"
#include "dist/comm/communicator.h"
#include "dist/ddp/bucket_plan.h"
#include "dist/ddp/grad_averager.h"
#include "nn/sequential.h"
#include "tests/support/idle_communicator.h"

/// Models that compute next to nothing, so that what is left to measure is the framework itself.
namespace brigade::bench {

/// Parameters of one element, one operation after the other, each with a parameter of its own, and
/// a listener. Operations compute nothing, forward or backward.
class EngineChain {
 public:
  explicit EngineChain(std::size_t nodes);
  /// Builds the graph, runs backward through it, takes it apart.
  void run();
  std::size_t callbacks() const { return listener_.callbacks; }

 private:
  struct Counter final : autograd::GradListener {
    void on_grad_ready(std::size_t /*index*/) override { ++callbacks; }
    std::size_t callbacks = 0;
  };
  autograd::Variable end() const;

  Counter listener_;
  std::vector<autograd::Variable> parameters_;
  std::vector<autograd::ListenerHandle> handles_;
  autograd::Variable x_;
};

/// A real network as narrow as it gets: Linear layers of width 1 with bias, batch 1, MSE.
class NarrowNetwork {
 public:
  explicit NarrowNetwork(std::size_t layers);
  /// Forward and backward.
  void run();

 private:
  autograd::Variable loss();

  std::unique_ptr<nn::Sequential> model_;
  Tensor x_, target_;
};

/// `count` parameters of 64 bytes, wrapped in a DataParallel of mode overlap over a
/// test::IdleCommunicator.
class WrappedParameters {
 public:
  explicit WrappedParameters(std::size_t count);
  /// Tells the DataParallel what the engine would tell it in one backward.
  void report_all();
  std::size_t buckets() const { return data_parallel_.buckets().size(); }

 private:
  std::vector<autograd::Variable> parameters_;
  test::IdleCommunicator comm_;
  dist::GradAverager data_parallel_;
};

/// Of `count` parameters, in buckets of about 400: as many buckets as a model of that many tensors
/// has.
dist::BucketPlan plan_of(std::size_t count);

/// Processor time of one `run` in nanoseconds, divided by `nodes`: the fastest of as many runs as
/// fit into 30 ms, and of at least 3, because whatever else the machine does only adds.
double ns_per_node(std::size_t nodes, const std::function<void()>& run);

}  // namespace brigade::bench
