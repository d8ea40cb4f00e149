#include "apps/metrics/memory_use.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "tests/support/thread_world.h"

namespace brigade::apps {
namespace {

TEST(MemoryUse, OfTheRankWithTheLargestPeakIsKnownToAll) {
  constexpr std::array<std::uint64_t, 3> kPeaks{10, 30, 20};
  test::thread_world(3, [&](dist::Communicator& comm) {
    MemoryUse mine;
    mine.weights = static_cast<std::uint64_t>(comm.rank());
    mine.peak = kPeaks.at(static_cast<std::size_t>(comm.rank()));
    const MemoryUse largest = largest_of_ranks(mine, comm);
    EXPECT_EQ(largest.peak, 30U) << "rank " << comm.rank();
    EXPECT_EQ(largest.weights, 1U) << "all parts are those of one rank";
  });
}

}  // namespace
}  // namespace brigade::apps
