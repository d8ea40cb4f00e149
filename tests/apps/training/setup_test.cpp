#include "apps/training/setup.h"

#include <gmock/gmock.h>

#include <utility>
#include <vector>

#include "apps/training/run_info.h"
#include "core/error.h"
#include "tests/support/thread_world.h"

namespace brigade::apps {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

TEST(Setup, RefusesRanksWithOtherData) {
  test::thread_world(2, [](dist::Communicator& comm) {
    Options options;
    options.data = "synthetic";
    options.train_samples = comm.rank() == 0 ? 40 : 41;
    EXPECT_THAT([&] { check_same_data(load_data(options, 4), comm); },
                testing::ThrowsMessage<VerificationError>(HasSubstr(
                    "rank 0 has '40 training samples', rank 1 has '41 training samples'")));
    options.train_samples = 40;
    check_same_data(load_data(options, 4), comm);
  });
}

TEST(Setup, ReadsAheadOnAGpuOrWithACoreToSpare) {
  constexpr Device kGpu{DeviceType::cuda, 0};
  Options options;
  EXPECT_FALSE(prefetches(options, kCpu, /*threads=*/1, /*cores=*/1));
  EXPECT_TRUE(prefetches(options, kCpu, 1, 2));
  EXPECT_TRUE(prefetches(options, kGpu, 1, 1));
  options.prefetch = "on";
  EXPECT_TRUE(prefetches(options, kCpu, 1, 1));
  options.prefetch = "off";
  EXPECT_FALSE(prefetches(options, kGpu, 1, 2));
}

TEST(Setup, RecordsTheLastStepsOfARunTooShortToSkipAsMany) {
  const auto recorded = [](std::int64_t steps) {
    const TraceSchedule schedule = trace_schedule(Options(), 0, steps);
    return std::pair(schedule.skip, schedule.steps);
  };
  EXPECT_EQ(recorded(100), std::pair(5L, 3L));
  EXPECT_EQ(recorded(8), std::pair(5L, 3L));
  EXPECT_EQ(recorded(5), std::pair(2L, 3L));
  EXPECT_EQ(recorded(2), std::pair(0L, 2L));
}

}  // namespace
}  // namespace brigade::apps
