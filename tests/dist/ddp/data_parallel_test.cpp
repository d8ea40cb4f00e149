#include "dist/ddp/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "autograd/functions/linear.h"
#include "autograd/functions/loss.h"
#include "core/random.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/relu.h"
#include "nn/sequential.h"
#include "optim/sgd.h"
#include "tests/support/expect_error.h"
#include "tests/support/small_model.h"
#include "tests/support/tensors.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using autograd::Variable;

constexpr std::int64_t kRows = 12;  // of all ranks and micro-batches together

World world_of(Communicator& comm) {
  RankInfo ranks;
  ranks.rank = comm.rank();
  ranks.size = comm.size();
  return {ranks, kCpu, std::shared_ptr<Communicator>(std::shared_ptr<void>(), &comm)};
}

nn::Sequential make_model() {
  manual_seed(1);
  return nn::Sequential(nn::Linear(3, 4), nn::ReLU(), nn::Linear(4, 2));
}

/// loss of part `part` of `parts` equal ones
template <class Model>
Variable loss_of(Model& model, int part, int parts) {
  const std::int64_t rows = kRows / parts;
  return nn::mse_loss(model(test::data_rows(part * rows, rows, 3, 5)),
                      test::data_rows(part * rows, rows, 2, 6));
}

std::vector<float> gradients_of(const std::vector<Variable>& parameters) {
  std::vector<float> all;
  for (const Variable& parameter : parameters) {
    const std::vector<float> values = parameter.grad().to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// What one process without any DataParallel gets for all rows.
std::vector<float> expected_gradients() {
  nn::Sequential model = make_model();
  loss_of(model, 0, 1).backward();
  return gradients_of(model.parameters());
}

void expect_near(const std::vector<float>& got, const std::vector<float>& expected) {
  EXPECT_THAT(got, testing::Pointwise(testing::FloatNear(1e-6F), expected));
}

TEST(DataParallel, AveragesWithDefaultsWhatAWholeModelComputes) {
  const std::vector<float> expected = expected_gradients();
  test::thread_world(3, [&](Communicator& comm) {
    nn::Sequential model = make_model();
    const World world = world_of(comm);
    DataParallel ddp(model, world);
    loss_of(ddp, comm.rank(), 3).backward();
    expect_near(gradients_of(ddp.parameters()), expected);
    optim::SGD(ddp.parameters(), {.lr = 0.1}).step();
    ddp.verify_parameters_equal();
  });
}

/// Not an nn::Module, with two inputs.
struct Product {
  Variable w{test::f32({2}, {1, 1}), true, "w"};
  std::vector<Variable> parameters() const { return {w}; }
  Variable operator()(const Variable& x, const Tensor& target) const {
    return autograd::mse_loss(autograd::linear(x, w, {}), target);
  }
};

TEST(DataParallel, WrapsWhateverHasParametersAndCanBeCalled) {
  test::thread_world(2, [](Communicator& comm) {
    Product product;
    DataParallel ddp(product, comm);
    const auto target = static_cast<float>(2 * comm.rank());  // mean over ranks: 1
    ddp(Variable(test::f32({1}, {1, 1})), test::f32({target}, {1, 1})).backward();
    EXPECT_EQ(test::values(product.w.grad()), (std::vector<float>{2}));  // 2 (w - 1)
  });
}

TEST(DataParallel, AccumulatesMicroBatchesAsIfTheyWereOne) {
  const std::vector<float> expected = expected_gradients();
  test::thread_world(2, [&](Communicator& comm) {
    for (const int count : {1, 2, 3}) {
      nn::Sequential model = make_model();
      DataParallel ddp(model, comm);
      const std::uint64_t before = comm.collectives();
      std::vector<int> indices;
      for (auto& micro : ddp.accumulate(count)) {
        indices.push_back(micro.index);
        const int part = micro.index * 2 + comm.rank();
        EXPECT_EQ(comm.collectives(), before) << "none before the last micro-batch";
        micro.backward(loss_of(ddp, part, 2 * count));
        EXPECT_EQ(micro.last(), micro.index + 1 == count);
      }
      EXPECT_EQ(std::ssize(indices), count);
      EXPECT_EQ(comm.collectives(), before + ddp.buckets().size());
      expect_near(gradients_of(ddp.parameters()), expected);
    }
  });
}

TEST(DataParallel, SynchronisesAgainAfterAnAccumulationThatEndedEarly) {
  test::thread_world(2, [](Communicator& comm) {
    nn::Sequential model = make_model();
    DataParallel ddp(model, comm);
    const auto fail = [&] {
      for ([[maybe_unused]] auto& micro : ddp.accumulate(3)) {
        throw std::runtime_error("no more data");
      }
    };
    EXPECT_THROW(fail(), std::runtime_error);
    for ([[maybe_unused]] auto& micro : ddp.accumulate(3)) {
      break;
    }
    loss_of(ddp, comm.rank(), 2).backward();
    expect_near(gradients_of(ddp.parameters()), expected_gradients());
  });
}

TEST(DataParallel, AccumulatesLocallyInsideAnOuterNoSync) {
  test::thread_world(2, [](Communicator& comm) {
    nn::Sequential model = make_model();
    DataParallel ddp(model, comm);
    const std::uint64_t before = comm.collectives();
    {
      auto silent = ddp.no_sync();
      for (auto& micro : ddp.accumulate(2)) {
        micro.backward(loss_of(ddp, comm.rank(), 2));
      }
      EXPECT_EQ(comm.collectives(), before);
    }
    ddp.averager().shadow_backward();
    expect_near(gradients_of(ddp.parameters()), expected_gradients());
  });
}

TEST(DataParallel, ShadowsOnAllRanksABackwardThatNoneRuns) {
  test::thread_world(2, [](Communicator& comm) {
    for (const SyncMode mode :
         {SyncMode::naive, SyncMode::flat, SyncMode::per_param, SyncMode::overlap}) {
      nn::Sequential model = make_model();
      DataParallel ddp(model, comm, {.mode = mode});
      optim::SGD sgd(ddp.parameters(), {.lr = 0.1});
      {
        auto silent = ddp.no_sync();
        loss_of(ddp, comm.rank(), 2).backward();
        EXPECT_THROW(sgd.step(), Error) << "the gradients are this rank's alone";
      }
      ddp.averager().shadow_backward();
      expect_near(gradients_of(ddp.parameters()), expected_gradients());
      ddp.averager().shadow_backward();  // the average of averages
      expect_near(gradients_of(ddp.parameters()), expected_gradients());
      sgd.step();
      ddp.verify_parameters_equal();
    }
  });
}

TEST(DataParallel, RefusesAStepWithoutMicroBatches) {
  test::thread_world(1, [](Communicator& comm) {
    nn::Sequential model = make_model();
    DataParallel ddp(model, comm);
    EXPECT_ERROR(ddp.accumulate(0), "accumulate: expected at least one micro-batch, got 0");
  });
}

TEST(DataParallel, RefusesRanksThatStartWithOtherWeights) {
  test::thread_world(2, [](Communicator& comm) {
    manual_seed(static_cast<std::uint64_t>(comm.rank()));
    nn::Linear model(2, 2);
    EXPECT_THROW(DataParallel(model, comm), VerificationError);
  });
}

}  // namespace
}  // namespace brigade::dist
