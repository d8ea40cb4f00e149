// --reduce deterministic: the weights do not depend on how gradients are packed and when they
// travel.
#include <gmock/gmock.h>

#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "dist/ddp/grad_averager.h"
#include "optim/sgd.h"
#include "tests/support/all_reduces.h"
#include "tests/support/small_model.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

/// One column of the matrix.
struct Packing {
  std::string name;
  DataParallelOptions options;
};

std::vector<Packing> packings() {
  constexpr std::size_t kMib = 1U << 20U;
  std::vector<Packing> all;
  for (const SyncMode mode :
       {SyncMode::naive, SyncMode::flat, SyncMode::per_param, SyncMode::overlap}) {
    for (const std::size_t bucket : {kMib / 4, kMib, 25 * kMib}) {
      all.push_back({fmt::format("{}, buckets of {} KiB", to_string(mode), bucket / 1024),
                     {.mode = mode, .bucket_bytes = bucket}});
    }
  }
  return all;
}

/// Rank 0's weights after two steps. The parameters have 512, 2, 512, 1 and 10 KiB, so the three
/// bucket sizes give one, two and all parameters per bucket.
std::vector<float> train(int ranks, const std::string& algorithm,
                         const DataParallelOptions& options) {
  constexpr std::int64_t kRows = 3;
  std::vector<float> weights;
  test::thread_world(ranks, [&](Communicator& comm) {
    comm.use(test::make_all_reduce(algorithm));
    const auto model = test::make_mlp({256, 512, 256, 10});
    const std::vector<autograd::Variable> parameters = model->parameters();
    GradAverager parallel(parameters, comm, options);
    optim::SGD optimizer(parameters, {.lr = 0.1, .momentum = 0.9});
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      const std::int64_t first = (step * ranks + comm.rank()) * kRows;
      const Tensor x = test::data_rows(first, kRows, 256, 3);
      const Tensor target = test::data_rows(first, kRows, 10, 4);
      autograd::mse_loss(model->forward(autograd::Variable(x)), target).backward();
      optimizer.step();
    }
    parallel.verify_parameters_equal();
    if (comm.rank() == 0) {
      weights = autograd::values_of(parameters);
    }
  });
  return weights;
}

class DeterministicReduction : public testing::TestWithParam<int> {};

TEST_P(DeterministicReduction, EveryModeAndBucketSizeEndsWithTheSameBits) {
  const std::vector<Packing> all = packings();
  const std::vector<float> expected = train(GetParam(), "ordered", all.front().options);
  for (const Packing& packing : all) {
    EXPECT_TRUE(train(GetParam(), "ordered", packing.options) == expected) << packing.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeterministicReduction, testing::Values(2, 3, 4, 5, 8));

// Were this to fail, the matrix above would prove nothing.
TEST(DeterministicReduction, IsNotWhatTheRingDoesAtThreeAndFiveRanks) {
  for (const int ranks : {3, 5}) {
    const DataParallelOptions small{.mode = SyncMode::flat, .bucket_bytes = 1U << 18U};
    const DataParallelOptions large{.mode = SyncMode::flat, .bucket_bytes = 25U << 20U};
    EXPECT_FALSE(train(ranks, "ring", small) == train(ranks, "ring", large)) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace brigade::dist
