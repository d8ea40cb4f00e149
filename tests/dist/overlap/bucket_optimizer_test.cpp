#include "dist/overlap/bucket_optimizer.h"

#include <gmock/gmock.h>

#include <atomic>
#include <optional>
#include <semaphore>

#include "autograd/functions/binary.h"
#include "autograd/functions/linear.h"
#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "core/ops.h"
#include "dist/comm/emulated_link_communicator.h"
#include "dist/ddp/grad_averager.h"
#include "dist/overlap/in_flight_updates.h"
#include "nn/loss.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/support/expect_error.h"
#include "tests/support/small_model.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

enum class Stepping { after_backward, in_flight, cross_step };

struct Training {
  Stepping stepping = Stepping::after_backward;
  SyncMode mode = SyncMode::overlap;
  bool adam = false;
  bool rebuild = true;
  int accum = 1;
  int steps = 8;  // long enough for the order of need to be planned and used
};

std::unique_ptr<optim::Optimizer> make_optimizer(
    bool adam, const std::vector<autograd::Variable>& parameters) {
  if (adam) {
    return std::make_unique<optim::Adam>(parameters, optim::Adam::Options{});
  }
  return std::make_unique<optim::SGD>(
      parameters,
      optim::SGD::Options{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
}

/// The weights after some steps on two ranks, and what the ranks lost in each.
std::vector<float> trained(const Training& how) {
  std::vector<float> result;
  test::thread_world(2, [&](Communicator& plain) {
    EmulatedLinkCommunicator comm(
        plain.split(0, plain.rank()),
        {.alpha_us = 200, .gigabytes_per_s = 0.01});  // slow enough to reach into the next step
    const auto model = test::make_mlp({8, 24, 24, 4});
    DataParallelOptions options{.mode = how.mode, .bucket_bytes = 1024};
    if (!how.rebuild) {
      options.plan = plan_buckets(model->parameters(), options.capacity());
    }
    GradAverager data_parallel(model->parameters(), comm, options);
    const auto optimizer = make_optimizer(how.adam, data_parallel.parameters());
    std::optional<InFlightUpdates> in_flight;
    if (how.stepping != Stepping::after_backward) {
      in_flight.emplace(data_parallel, calls_of(*optimizer),
                        how.stepping == Stepping::cross_step ? UpdateDeadline::next_read
                                                             : UpdateDeadline::end_of_backward,
                        /*chunk_bytes=*/1024);
    }
    std::vector<float> losses;
    for (int step = 0; step < how.steps; ++step) {
      optimizer->zero_grad();
      for (int micro = 0; micro < how.accum; ++micro) {
        const Tensor x = Tensor::empty({6, 8});
        for (std::int64_t i = 0; i < x.numel(); ++i) {
          x.data<float>()[i] =
              static_cast<float>((i * 7 + step * 3 + micro + comm.rank()) % 11) / 11;
        }
        const Tensor target = Tensor::zeros({6, 4});
        const auto scope = micro + 1 < how.accum ? data_parallel.no_sync() : nullptr;
        const autograd::Variable value =
            nn::mse_loss(model->forward(autograd::Variable(x)), target);
        value.backward();
        losses.push_back(static_cast<float>(value.data().item()));
      }
      if (how.stepping == Stepping::after_backward) {
        optimizer->step();
      }
    }
    data_parallel.verify_parameters_equal();
    if (comm.rank() == 0) {
      result = autograd::values_of(model->parameters());
      result.insert(result.end(), losses.begin(), losses.end());
    }
  });
  return result;
}

class BucketOptimizerBits : public testing::TestWithParam<Training> {};

TEST_P(BucketOptimizerBits, AreThoseOfStepsAfterBackward) {
  Training how = GetParam();
  const std::vector<float> plain = trained(how);
  how.stepping = Stepping::in_flight;
  EXPECT_EQ(trained(how), plain);
  how.stepping = Stepping::cross_step;
  EXPECT_EQ(trained(how), plain) << "under the next forward";
}

INSTANTIATE_TEST_SUITE_P(Trainings, BucketOptimizerBits,
                         testing::Values(Training{}, Training{.mode = SyncMode::per_param},
                                         Training{.mode = SyncMode::flat}, Training{.adam = true},
                                         Training{.rebuild = false}, Training{.accum = 3}));

/// One parameter of two elements, with a network and an update that a test holds back.
class HeldBack : public testing::Test {
 protected:
  HeldBack() {
    network->run([this] { arrival.acquire(); });
    updates.launched(bucket, Work(network->record(), kCpu));
  }
  ~HeldBack() override { arrival.release(); }

  std::counting_semaphore<2> arrival{0};
  std::unique_ptr<Stream> network = make_side_stream(kCpu, "network");
  autograd::Variable weight{Tensor::zeros({2}), true, "weight"};
  std::vector<autograd::Variable> parameters{weight};
  Bucket bucket = std::move(make_buckets(parameters, {{0}}).front());
  ThreadCommunicator comm{std::make_shared<Mailbox>(), 0, 1};
  std::atomic<bool> updated = false;
  OptimizerCalls optimizer{.begin_step = [] {},
                           .update =
                               [this](const Bucket&) {
                                 return [this] {
                                   std::this_thread::sleep_for(std::chrono::milliseconds(50));
                                   updated = true;
                                 };
                               }};
  BucketOptimizer updates{parameters, comm, kCpu, optimizer, UpdateDeadline::next_read};
};

TEST_F(HeldBack, AnUpdateDoesNotStartBeforeTheNodeThatReadsTheWeightHasEnded) {
  arrival.release();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(updated) << "dx = dy W may still be reading the old W";
  updates.backward_ended();
  static_cast<void>(weight.data());
  EXPECT_TRUE(updated);
}

TEST_F(HeldBack, WhoReadsTheWeightNextWaitsForItsUpdate) {
  updates.on_node_end();
  updates.backward_ended();
  EXPECT_FALSE(updated) << "the end of backward does not wait";
  arrival.release();
  static_cast<void>(weight.data());
  EXPECT_TRUE(updated);
  updates.finish();
  EXPECT_EQ(updates.failure(), nullptr);
}

TEST_F(HeldBack, ABackwardThatFailsBehindABucketDropsItsUpdate) {
  updates.on_node_end();
  updates.backward_aborted();
  updates.finish();  // does not wait: the ranks it would wait for may be gone
  EXPECT_NE(updates.failure(), nullptr);
  arrival.release();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(updated);
}

TEST(BucketOptimizer, GoesOnWhenBucketsAreRebuiltWhileTheirOrderIsWatched) {
  test::thread_world(2, [](Communicator& comm) {
    const std::int64_t widths[] = {48, 16, 48, 16};
    std::vector<autograd::Variable> parameters;
    for (const std::int64_t width : widths) {
      parameters.emplace_back(Tensor::zeros({width, 1}), true,
                              fmt::format("{}.weight", parameters.size()));
    }
    GradAverager data_parallel(parameters, comm, {.bucket_bytes = 256});
    const std::size_t buckets = data_parallel.buckets().size();
    optim::SGD optimizer(parameters, {.lr = 0.1});
    const InFlightUpdates scope(data_parallel, calls_of(optimizer), UpdateDeadline::next_read);
    const autograd::Variable one(Tensor::from(std::vector<float>{1}, {1, 1}));
    for (int step = 0; step < 10; ++step) {
      optimizer.zero_grad();
      if (comm.rank() == 0 && step < 3) {  // no samples, so the order of backward is not seen yet
        data_parallel.shadow_backward();
        continue;
      }
      autograd::Variable sum;
      for (const std::size_t i : {3U, 1U, 0U, 2U}) {
        const autograd::Variable loss = autograd::mse_loss(autograd::linear(one, parameters[i], {}),
                                                           Tensor::zeros({1, widths[i]}));
        sum = sum.defined() ? autograd::add(sum, loss) : loss;
      }
      sum.backward();
    }
    EXPECT_TRUE(data_parallel.rebuilt());
    EXPECT_NE(data_parallel.buckets().size(), buckets);
    data_parallel.verify_parameters_equal();
  });
}

TEST(BucketOptimizer, IsRefusedWhereThereAreNoBuckets) {
  test::thread_world(1, [](Communicator& comm) {
    const auto model = test::make_mlp({2, 2});
    GradAverager data_parallel(model->parameters(), comm, {.mode = SyncMode::naive});
    EXPECT_ERROR(static_cast<void>(InFlightUpdates(data_parallel, {}, UpdateDeadline::next_read)),
                 "data parallel: naive synchronisation has no buckets to update one by one; use "
                 "another mode");
  });
}

TEST(BucketOptimizer, IsRefusedWithUnusedParameters) {
  test::thread_world(1, [](Communicator& comm) {
    const auto model = test::make_mlp({2, 2});
    GradAverager data_parallel(model->parameters(), comm, {.find_unused_parameters = true});
    EXPECT_ERROR(static_cast<void>(InFlightUpdates(data_parallel, {}, UpdateDeadline::next_read)),
                 "data parallel: which parameters are unused is known only when backward is over, "
                 "too late for updates in flight; use one or the other");
  });
}

}  // namespace
}  // namespace brigade::dist
