// Run under mpirun with up to 4 ranks: shards of different lengths, against one process on their
// union.
#include <gmock/gmock.h>

#include "dist/comm/mpi_communicator.h"
#include "dist/launch/launch.h"
#include "tests/support/small_training.h"
#include "tests/support/uneven_training.h"

namespace brigade::dist {
namespace {

class MpiJoin : public testing::TestWithParam<test::UnevenRun> {};

TEST_P(MpiJoin, TrainsOnUnevenShardsAsOneProcessOnTheirUnion) {
  MpiCommunicator comm;
  EXPECT_LE(test::relative_l2(test::train_on_uneven_shards(comm, GetParam()),
                              test::train_on_their_union(comm.size())),
            1e-6);
}

INSTANTIATE_TEST_SUITE_P(All, MpiJoin,
                         testing::Values(test::UnevenRun{.mode = SyncMode::naive},
                                         test::UnevenRun{.mode = SyncMode::flat},
                                         test::UnevenRun{.mode = SyncMode::per_param},
                                         test::UnevenRun{.mode = SyncMode::overlap},
                                         test::UnevenRun{.unused = UnusedPolicy::find},
                                         test::UnevenRun{.accumulate = true}));

}  // namespace
}  // namespace brigade::dist

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return brigade::dist::run_main([](brigade::dist::MpiSession&) { return RUN_ALL_TESTS(); });
}
