// Run under mpirun with any number of ranks that divides 48: every mode on real MPI, against one
// rank on the joined batch.
#include <gmock/gmock.h>
#include <mpi.h>

#include "dist/comm/gather.h"
#include "dist/comm/mpi_communicator.h"
#include "dist/comm/single_process.h"
#include "dist/launch/launch.h"
#include "tests/support/small_training.h"

namespace {

int all_reduces_seen_by_mpi = 0;

}  // namespace

// MPI's profiling interface: this definition is called instead of the library's, so the count is
// independent of ours.
extern "C" int MPI_Iallreduce(const void* send, void* receive, int count, MPI_Datatype type,
                              MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  ++all_reduces_seen_by_mpi;
  return PMPI_Iallreduce(send, receive, count, type, op, comm, request);
}

namespace brigade::dist {
namespace {

using test::relative_l2;
using test::train;
using test::TrainingRun;

constexpr int kSteps = 100;

/// Weights after training alone on the whole batch.
const std::vector<float>& alone() {
  static const std::vector<float> weights = [] {
    SingleProcessCommunicator one(kCpu);
    return train(one, {.steps = kSteps});
  }();
  return weights;
}

class MpiModes : public testing::TestWithParam<TrainingRun> {};

TEST_P(MpiModes, EqualOneRankAfterAHundredSteps) {
  MpiCommunicator comm;
  EXPECT_LE(relative_l2(train(comm, GetParam()), alone()), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(All, MpiModes,
                         testing::Values(TrainingRun{.mode = SyncMode::naive, .steps = kSteps},
                                         TrainingRun{.mode = SyncMode::flat, .steps = kSteps},
                                         TrainingRun{.mode = SyncMode::per_param, .steps = kSteps},
                                         TrainingRun{.mode = SyncMode::overlap, .steps = kSteps},
                                         TrainingRun{.accum = 2, .no_sync = true, .steps = kSteps},
                                         TrainingRun{
                                             .accum = 2, .no_sync = false, .steps = kSteps}));

/// MPI_Iallreduce calls per step, counted by the interposer.
int all_reduces_per_step(const TrainingRun& run) {
  MpiCommunicator comm;
  const int before = all_reduces_seen_by_mpi;
  train(comm, run);
  return (all_reduces_seen_by_mpi - before) / run.steps;
}

/// A cap at which the small model has 3 buckets, before and after they are rebuilt.
constexpr std::size_t kCap = 600;

TEST(MpiCollectives, NaiveUsesOnePerParameterAndOverlapOnePerBucket) {
  EXPECT_EQ(all_reduces_per_step({.mode = SyncMode::naive}), 6);
  EXPECT_EQ(all_reduces_per_step({.mode = SyncMode::per_param}), 6);
  const int buckets = all_reduces_per_step({.mode = SyncMode::overlap, .bucket_bytes = kCap});
  EXPECT_GT(buckets, 1);
  EXPECT_LT(buckets, 6);
  EXPECT_EQ(all_reduces_per_step({.mode = SyncMode::flat, .bucket_bytes = kCap}), buckets);
}

TEST(MpiCollectives, NoSyncWithFourMicroBatchesUsesAQuarter) {
  const int every_time = all_reduces_per_step({.accum = 4, .no_sync = false, .bucket_bytes = kCap});
  const int once = all_reduces_per_step({.accum = 4, .no_sync = true, .bucket_bytes = kCap});
  EXPECT_GT(once, 0);
  EXPECT_EQ(every_time, 4 * once);
}

TEST(MpiCollectives, LetHostCallsPassWhileAnAllReduceIsInFlight) {
  MpiCommunicator comm;
  const Tensor values = Tensor::from(std::vector<float>(1U << 18U, 1.0F), {1 << 18});
  const Work work = comm.all_reduce(values);
  const std::vector<int> ranks = all_gather_values(comm, comm.rank());
  for (int rank = 0; rank < comm.size(); ++rank) {
    EXPECT_EQ(ranks[static_cast<std::size_t>(rank)], rank);
  }
  comm.wait(work);
  EXPECT_THAT(values.to_vector<float>(), testing::Each(static_cast<float>(comm.size())));
}

}  // namespace
}  // namespace brigade::dist

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return brigade::dist::run_main([](brigade::dist::MpiSession&) { return RUN_ALL_TESTS(); });
}
