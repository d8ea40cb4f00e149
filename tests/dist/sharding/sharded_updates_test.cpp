// An optimizer that the ranks share ends with the bits of one that each rank has to itself.
#include "dist/sharding/sharded_updates.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "dist/comm/emulated_link_communicator.h"
#include "dist/ddp/grad_averager.h"
#include "dist/overlap/in_flight_updates.h"
#include "optim/adam.h"
#include "optim/clip_grad.h"
#include "optim/sgd.h"
#include "tests/support/all_reduces.h"
#include "tests/support/expect_error.h"
#include "tests/support/small_model.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using Parameters = std::vector<autograd::Variable>;
using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(const Parameters&)>;

std::unique_ptr<optim::Optimizer> make_momentum(const Parameters& parameters) {
  return std::make_unique<optim::SGD>(
      parameters, optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
}

/// Parts of a bucket differ in weight decay.
std::unique_ptr<optim::Optimizer> make_adamw(const Parameters& parameters) {
  return std::make_unique<optim::Adam>(
      parameters,
      optim::Adam::Options{
          .lr = 0.01, .weight_decay = 0.1, .decoupled = true, .decay_matrices_only = true});
}

struct Job {
  MakeOptimizer make_optimizer = make_adamw;
  DataParallelOptions options = {.bucket_bytes = 20'000};
  double clip_norm = 0.0;
  int accum = 1;
  bool unused = false;     ///< the last layer takes part in odd steps only
  bool slow_link = false;  ///< weights are still on their way when forward begins
  bool reversed = false;   ///< registered as backward goes: the first buckets are a wrong guess
};

/// A network whose last layer can be left out.
struct Net {
  std::unique_ptr<nn::Sequential> body = test::make_mlp({16, 64, 30, 5}, 1);
  std::unique_ptr<nn::Sequential> head = test::make_mlp({5, 5}, 2);

  Parameters parameters(bool reversed = false) const {
    Parameters all = body->parameters();
    for (const autograd::Variable& each : head->parameters()) {
      all.push_back(each);
    }
    if (reversed) {
      std::ranges::reverse(all);
    }
    return all;
  }
};

void backward(const Net& net, const Job& job, int step, std::int64_t first) {
  constexpr std::int64_t kRows = 3;
  const Tensor x = test::data_rows(first, kRows, 16, 3);
  const Tensor target = test::data_rows(first, kRows, 5, 4);
  autograd::Variable y = net.body->forward(autograd::Variable(x));
  if (!job.unused || step % 2 == 1) {
    y = net.head->forward(y);
  }
  autograd::mse_loss(y, target).backward();
}

/// Rank 0's weights after four steps.
std::vector<float> train(int ranks, const Job& job, bool sharded) {
  std::vector<float> weights;
  test::thread_world(ranks, [&](Communicator& world) {
    EmulatedLinkCommunicator slow(world.split(0, world.rank()),
                                  {.alpha_us = 3'000, .gigabytes_per_s = 1});
    Communicator& comm = job.slow_link ? slow : world;
    comm.use(test::make_all_reduce("ordered"));
    const Net net;
    const Parameters parameters = net.parameters(job.reversed);
    const auto optimizer = job.make_optimizer(parameters);
    DataParallelOptions options = job.options;
    options.find_unused_parameters = job.unused;
    if (sharded) {
      options.hook = shard(*optimizer);
    }
    GradAverager parallel(parameters, comm, options);
    for (int step = 0; step < 4; ++step) {
      optimizer->zero_grad();
      for (int micro = 0; micro < job.accum; ++micro) {
        std::optional<GradAverager::NoSyncScope> silent;
        if (micro + 1 < job.accum) {
          silent.emplace(parallel.no_sync());
        }
        backward(net, job, step, ((step * job.accum + micro) * ranks + comm.rank()) * 3);
      }
      if (job.clip_norm > 0.0) {
        optim::clip_grad_norm(*optimizer, job.clip_norm);
      }
      optimizer->step();
    }
    parallel.verify_parameters_equal();
    if (comm.rank() == 0) {
      weights = autograd::values_of(net.parameters());
    }
  });
  return weights;
}

struct Case {
  std::string name;
  Job job;
};

class ShardedUpdatesTest : public testing::TestWithParam<Case> {};

TEST_P(ShardedUpdatesTest, EndWithTheBitsOfWholeOnes) {
  for (const int ranks : {1, 2, 3, 5}) {
    EXPECT_EQ(train(ranks, GetParam().job, /*sharded=*/true),
              train(ranks, GetParam().job, /*sharded=*/false))
        << ranks << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, ShardedUpdatesTest,
    testing::Values(Case{"AdamW", {}}, Case{"Momentum", {.make_optimizer = make_momentum}},
                    Case{"Flat", {.options = {.mode = SyncMode::flat, .bucket_bytes = 5000}}},
                    Case{"PerParam", {.options = {.mode = SyncMode::per_param}}},
                    Case{"OneBucket", {.options = {}}}, Case{"Clipped", {.clip_norm = 0.05}},
                    Case{"Accumulated", {.accum = 3}}, Case{"Unused", {.unused = true}},
                    Case{"WeightsThatComeLate", {.slow_link = true}},
                    Case{"OtherBucketsAfterTheFirstStep",
                         {.options = {.bucket_bytes = 12'500}, .reversed = true}}),
    [](const auto& test) { return test.param.name; });

TEST(ShardedUpdates, KeepOneNthOfTheState) {
  for (const int ranks : {1, 2, 3, 4}) {
    test::thread_world(ranks, [&](Communicator& comm) {
      const auto model = test::make_mlp({64, 128, 64, 10});
      optim::Adam adam(model->parameters());
      GradAverager parallel(model->parameters(), comm, {.hook = shard(adam)});
      test::backward_once(*model, 64, 10);
      adam.step();
      std::size_t weights = 0;
      for (const autograd::Variable& parameter : model->parameters()) {
        weights += parameter.data().nbytes();
      }
      const double part = static_cast<double>(2 * weights) / ranks;
      EXPECT_NEAR(static_cast<double>(adam.state_bytes()), part, 0.02 * part) << ranks;
    });
  }
}

TEST(ShardedUpdates, AverageOnlyTheRanksOwnShare) {
  test::thread_world(2, [](Communicator& comm) {
    const auto model = test::make_mlp({16, 16});
    optim::SGD sgd(model->parameters(), {.lr = 1.0});
    GradAverager parallel(model->parameters(), comm, {.hook = shard(sgd)});
    test::backward_once(*model, 16, 16);
    std::int64_t elements = 0;
    for (const optim::ParamRange& part : sgd.parts()) {
      elements += part.grad.numel();
    }
    EXPECT_EQ(test::sum_over_ranks(comm, static_cast<std::uint64_t>(elements)), 272);
    EXPECT_LE(elements, 144) << "17 lines of 16";
  });
}

TEST(ShardedUpdates, RefuseToAddToGradientsThatAreDivided) {
  constexpr const char* kRefusal =
      "sharded optimizer: expected zero_grad() before this backward, because the gradient of "
      "'0.weight' has been divided among the ranks; accumulate inside no_sync()";
  test::thread_world(2, [&](Communicator& comm) {
    const auto model = test::make_mlp({6, 4});
    optim::SGD sgd(model->parameters(), {.lr = 1.0});
    GradAverager parallel(model->parameters(), comm, {.hook = shard(sgd)});
    test::backward_once(*model, 6, 4);
    EXPECT_ERROR(test::backward_once(*model, 6, 4), kRefusal);
    EXPECT_ERROR(parallel.shadow_backward(), kRefusal);
    sgd.zero_grad();
    test::backward_once(*model, 6, 4);
  });
}

TEST(ShardedUpdates, AreNotMadeInFlight) {
  test::thread_world(2, [](Communicator& comm) {
    const auto model = test::make_mlp({6, 4});
    optim::SGD sgd(model->parameters(), {.lr = 1.0});
    GradAverager parallel(model->parameters(), comm, {.hook = shard(sgd)});
    const InFlightUpdates scope(parallel, calls_of(sgd), UpdateDeadline::end_of_backward);
    EXPECT_ERROR(test::backward_once(*model, 6, 4),
                 "optimizer: expected the whole of it on every rank to update buckets in flight, "
                 "got shards; use one or the other");
  });
}

}  // namespace
}  // namespace brigade::dist
