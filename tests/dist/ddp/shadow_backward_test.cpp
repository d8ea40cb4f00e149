#include <gmock/gmock.h>

#include "dist/comm/gather.h"
#include "dist/ddp/grad_averager.h"
#include "tests/support/slopes.h"
#include "tests/support/small_training.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using test::backward_of;
using test::gradient_of;
using test::numbers;
using test::thread_world;

/// In every mode, with buckets of two parameters.
class ShadowBackwardTest : public testing::TestWithParam<std::tuple<SyncMode, bool>> {
 protected:
  static DataParallelOptions options() {
    return {.mode = std::get<0>(GetParam()),
            .bucket_bytes = 2 * kSliceAlignment,
            .find_unused_parameters = std::get<1>(GetParam())};
  }
};

TEST_P(ShadowBackwardTest, ContributesZerosAndReceivesTheAverage) {
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
    EXPECT_TRUE(p[0].grad_state()->synchronized());
  });
}

TEST_P(ShadowBackwardTest, ContributesWhatNoSyncHasAccumulated) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(1);
    GradAverager parallel(p, comm, options());
    {
      const auto scope = parallel.no_sync();
      backward_of({{p[0], comm.rank() == 0 ? 10.0 : 20.0}});
      if (comm.rank() == 1) {
        parallel.shadow_backward();  // nothing to shadow in here
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

TEST_P(ShadowBackwardTest, KeepsAnAverageAccumulatedUpon) {
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

INSTANTIATE_TEST_SUITE_P(Modes, ShadowBackwardTest,
                         testing::Combine(testing::ValuesIn(test::kAllModes), testing::Bool()),
                         [](const auto& test) {
                           return fmt::format("{}{}", to_string(std::get<0>(test.param)),
                                              std::get<1>(test.param) ? "_find" : "");
                         });

}  // namespace
}  // namespace brigade::dist
