// Run under mpirun with 2, 3 or 4 ranks: our own algorithms over sockets between processes.
#include <gmock/gmock.h>

#include "dist/comm/single_process.h"
#include "dist/launch/launch.h"
#include "tests/support/all_reduces.h"
#include "tests/support/small_training.h"

namespace brigade::dist {
namespace {

class Sockets : public testing::TestWithParam<const char*> {};

TEST_P(Sockets, SumOverProcesses) {
  const auto comm = make_communicator(GetParam(), kCpu);
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t numel : {0, 1, comm->size() - 1, comm->size() + 1, 1000, 1'000'003}) {
      test::expect_all_reduce_sums(*comm, numel, dtype);
    }
  }
}

TEST_P(Sockets, TrainAsOneRank) {
  SingleProcessCommunicator one(kCpu);
  const std::vector<float> alone = test::train(one, {});
  const auto comm = make_communicator(GetParam(), kCpu);
  for (const SyncMode mode : {SyncMode::naive, SyncMode::per_param, SyncMode::overlap}) {
    EXPECT_LE(test::relative_l2(test::train(*comm, {.mode = mode}), alone), 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Sockets, testing::Values("ring", "halving", "tree"));

}  // namespace
}  // namespace brigade::dist

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return brigade::dist::run_main([](brigade::dist::MpiSession&) { return RUN_ALL_TESTS(); });
}
