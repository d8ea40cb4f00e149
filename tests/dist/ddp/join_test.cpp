#include "dist/ddp/join.h"

#include <gmock/gmock.h>

#include <set>

#include "dist/comm/single_process.h"
#include "dist/ddp/grad_averager.h"
#include "tests/support/expect_error.h"
#include "tests/support/slopes.h"
#include "tests/support/small_training.h"
#include "tests/support/thread_world.h"
#include "tests/support/uneven_training.h"

namespace brigade::dist {
namespace {

using test::backward_of;
using test::gradient_of;
using test::numbers;
using test::thread_world;
using test::UnevenRun;
using testing::IsEmpty;

class JoinTest : public testing::TestWithParam<std::tuple<int, UnevenRun>> {};

TEST_P(JoinTest, TrainsOnUnevenShardsAsOneProcessOnTheirUnion) {
  const auto [ranks, run] = GetParam();
  std::set<std::int64_t> step_counts;
  for (int rank = 0; rank < ranks; ++rank) {
    step_counts.insert(test::steps_of_shard(ranks, rank));
  }
  ASSERT_EQ(step_counts.size(), static_cast<std::size_t>(ranks)) << "all shards differ in steps";
  const std::vector<float> expected = test::train_on_their_union(ranks);
  thread_world(ranks, [&, run = run](Communicator& comm) {
    EXPECT_LE(test::relative_l2(test::train_on_uneven_shards(comm, run), expected), 1e-6);
  });
}

INSTANTIATE_TEST_SUITE_P(RanksAndModes, JoinTest,
                         testing::Combine(testing::Values(2, 3, 4),
                                          testing::Values(UnevenRun{.mode = SyncMode::naive},
                                                          UnevenRun{.mode = SyncMode::flat},
                                                          UnevenRun{.mode = SyncMode::per_param},
                                                          UnevenRun{.mode = SyncMode::overlap},
                                                          UnevenRun{.unused = UnusedPolicy::find},
                                                          UnevenRun{.accumulate = true})),
                         [](const auto& test) {
                           const UnevenRun& run = std::get<1>(test.param);
                           return concat(std::get<0>(test.param), "_", to_string(run.mode),
                                         run.accumulate ? "_no_sync" : "",
                                         run.unused == UnusedPolicy::find ? "_find" : "");
                         });

TEST(Join, WeighsEverySampleAlike) {
  thread_world(3, [](Communicator& comm) {
    Join join(comm);
    const std::vector<std::int64_t> mine{8, 3, 0};
    const JoinStep step = join.begin(mine[static_cast<std::size_t>(comm.rank())]);
    EXPECT_TRUE(step.active());
    EXPECT_EQ(step.samples, 11);
    EXPECT_DOUBLE_EQ(comm.rank() == 0 ? step.seed(8) : 24.0 / 11.0, 24.0 / 11.0);
    EXPECT_DOUBLE_EQ(comm.rank() == 1 ? step.seed(3) : 9.0 / 11.0, 9.0 / 11.0);
    EXPECT_FALSE(join.begin(0).active());
  });
}

TEST(Join, GivesFullBatchesTheSeedOne) {
  thread_world(4, [](Communicator& comm) { EXPECT_DOUBLE_EQ(Join(comm).begin(8).seed(8), 1.0); });
}

TEST(Join, WarnsOnceWhenTheMeanOfMeansIsNotTheMeanAndNamesTheCounts) {
  thread_world(3, [](Communicator& comm) {
    std::vector<std::string> lines;
    Join join(comm, Join::Weighting::per_rank_mean,
              [&](const std::string& line) { lines.push_back(line); });
    EXPECT_DOUBLE_EQ(join.begin(8).seed(8), 1.0);
    EXPECT_THAT(lines, IsEmpty());
    for (int step = 0; step < 2; ++step) {
      const std::int64_t mine = comm.rank() == 2 ? 3 : 8;
      EXPECT_DOUBLE_EQ(join.begin(mine).seed(mine), 1.0) << "every rank counts the same";
    }
    if (comm.rank() == 0) {
      EXPECT_THAT(lines, testing::ElementsAre(
                             "[rank 0] warning: join: the mean of the ranks' means is not the mean "
                             "over all samples: ranks 0 to 2 have 8, 8, 3 samples in this step; "
                             "weight by samples, or give every rank as many"));
    } else {
      EXPECT_THAT(lines, IsEmpty());
    }
  });
}

TEST(Join, DoesNotWarnWhereTheMeanOfMeansIsTheMean) {
  thread_world(3, [](Communicator& comm) {
    std::vector<std::string> lines;
    Join join(comm, Join::Weighting::per_rank_mean,
              [&](const std::string& line) { lines.push_back(line); });
    const std::int64_t mine = comm.rank() == 2 ? 0 : 8;
    EXPECT_DOUBLE_EQ(join.begin(mine).seed_per_sample, mine > 0 ? 3.0 / (2 * 8) : 0.0);
    EXPECT_THAT(lines, IsEmpty()) << "the active ranks have equally many";
  });
}

TEST(Join, RefusesANegativeCount) {
  SingleProcessCommunicator comm(kCpu);
  Join join(comm);
  EXPECT_ERROR(join.begin(-1), "join: expected a number of samples, got -1");
}

/// In every mode, with buckets of two parameters.
class MirrorTest : public testing::TestWithParam<std::tuple<SyncMode, UnusedPolicy>> {
 protected:
  static DataParallelOptions options() {
    return {.mode = std::get<0>(GetParam()),
            .bucket_bytes = 2 * kSliceAlignment,
            .unused = std::get<1>(GetParam())};
  }
};

TEST_P(MirrorTest, ContributesZerosAndReceivesTheAverage) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(3);
    GradAverager parallel(p, comm, options());
    if (comm.rank() == 0) {
      backward_of({{p[0], 2}, {p[1], 4}, {p[2], 8}});
    } else {
      parallel.shadow_backward();
    }
    EXPECT_EQ(gradient_of(p[0]), 1.0);
    EXPECT_EQ(gradient_of(p[1]), 2.0);
    EXPECT_EQ(gradient_of(p[2]), 4.0);
    const auto counts = all_gather_values(comm, comm.collectives());
    EXPECT_EQ(counts[0], counts[1]);
    EXPECT_TRUE(p[0].grad_state()->synchronized);
  });
}

TEST_P(MirrorTest, ContributesWhatNoSyncHasAccumulated) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(1);
    GradAverager parallel(p, comm, options());
    {
      const auto scope = parallel.no_sync();
      backward_of({{p[0], comm.rank() == 0 ? 10.0 : 20.0}});
      if (comm.rank() == 1) {
        parallel.shadow_backward();  // nothing to mirror in here
      }
    }
    if (comm.rank() == 0) {
      backward_of({{p[0], 4}});
    } else {
      parallel.shadow_backward();
    }
    EXPECT_EQ(gradient_of(p[0]), 17.0);
  });
}

TEST_P(MirrorTest, KeepsAnAverageAccumulatedUpon) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(1);
    GradAverager parallel(p, comm, options());
    backward_of({{p[0], comm.rank() == 0 ? 2.0 : 10.0}});
    if (comm.rank() == 0) {
      backward_of({{p[0], 4}});
    } else {
      parallel.shadow_backward();
    }
    EXPECT_EQ(gradient_of(p[0]), 8.0);  // 6 + 4/2
  });
}

INSTANTIATE_TEST_SUITE_P(Modes, MirrorTest,
                         testing::Combine(testing::ValuesIn(test::kAllModes),
                                          testing::Values(UnusedPolicy::refuse,
                                                          UnusedPolicy::find)),
                         [](const auto& test) {
                           return concat(to_string(std::get<0>(test.param)), "_",
                                         to_string(std::get<1>(test.param)));
                         });

}  // namespace
}  // namespace brigade::dist
