#include "dist/hooks/top_k.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/hook_bench.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using test::HookBench;
using test::thread_world;

/// Sixteen numbers fill a bucket's slice, so there is no padding to choose from.
constexpr std::size_t kCount = 16;

HookBench bench(Communicator& comm, double ratio) {
  return {comm, std::make_unique<TopK>(ratio), {{std::int64_t{kCount}}}};
}

/// Numbers at the first places, 0 behind them.
std::vector<float> gradient(std::vector<float> first) {
  first.resize(kCount, 0.0F);
  return first;
}

TEST(TopK, SendsTheLargestOfEachRank) {
  thread_world(2, [](Communicator& comm) {
    const std::vector<float> mine =
        comm.rank() == 0 ? gradient({1, -5, 2, 4, -3}) : gradient({-9, 8, 7, 0, -1});
    EXPECT_EQ(bench(comm, 2.0 / 16.0).reduce(mine), gradient({-9, -5 + 8, 0, 4}));
  });
}

TEST(TopK, WhatIsLeftOutComesLater) {
  thread_world(3, [](Communicator& comm) {
    HookBench two = bench(comm, 2.0 / 16.0);
    std::vector<float> mine(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      mine[i] = static_cast<float>((i * 5) % 16 + 1) * (comm.rank() == 1 ? -4.0F : 1.0F);
    }
    const std::vector<std::vector<float>> all = test::from_all(comm, mine);
    std::vector<float> applied(kCount, 0.0F);
    for (int step = 0; step < 8; ++step) {  // 8 steps of 2 are all 16
      const std::vector<float> reduced = two.reduce(step == 0 ? mine : gradient({}));
      for (std::size_t i = 0; i < kCount; ++i) {
        applied[i] += reduced[i];
      }
      EXPECT_EQ(std::count(applied.begin(), applied.end(), 0.0F), 14 - 2 * step);
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(applied[i], all[0][i] + all[1][i] + all[2][i]) << i;
    }
  });
}

TEST(TopK, ASmallGradientGrowsUntilItIsAmongTheLargest) {
  thread_world(2, [](Communicator& comm) {
    HookBench hook = bench(comm, 1.0 / 16.0);
    float applied = 0.0F;
    for (int step = 0; step < 40; ++step) {
      applied += hook.reduce(gradient({10, 1}))[1];
    }
    // Two ranks; it is sent when it has grown beyond 10, so no more than that is still waiting.
    EXPECT_GE(applied, 2 * (40 - 11));
  });
}

TEST(TopK, WithRatioOneIsTheSumInRankOrder) {
  thread_world(3, [](Communicator& comm) {
    std::vector<float> mine(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      mine[i] = std::sin(static_cast<float>(i) + static_cast<float>(comm.rank()));
    }
    const Tensor expected = Tensor::from(mine, {std::int64_t{kCount}});
    comm.blocking_all_reduce(expected);  // on threads: in rank order
    EXPECT_EQ(bench(comm, 1.0).reduce(mine), expected.to_vector<float>());
  });
}

TEST(TopK, RoundsKUpAndSendsPlacesAndNumbersToEverybody) {
  thread_world(4, [](Communicator& comm) {
    bench(comm, 0.01).reduce(gradient({1, 2, 3}));  // 0.16 numbers: 1
    EXPECT_EQ(comm.bytes_sent(), 3U * 8U);
    bench(comm, 0.19).reduce(gradient({1, 2, 3}));  // 3.04 numbers: 4
    EXPECT_EQ(comm.bytes_sent(), 3U * 8U + 3U * 4U * 8U);
  });
}

TEST(TopK, NanIsSentFirst) {
  thread_world(2, [](Communicator& comm) {
    const std::vector<float> sum =
        bench(comm, 1.0 / 16.0).reduce(gradient({5, comm.rank() == 0 ? -NAN : 1.0F, INFINITY}));
    EXPECT_TRUE(std::isnan(sum[1]));
    EXPECT_EQ(sum[2], INFINITY);
    EXPECT_EQ(sum[0], 0.0F);
  });
}

TEST(TopK, RefusesRatiosThatMeanNothing) {
  EXPECT_ERROR(TopK(0.0), "topk: expected a ratio above 0 and at most 1, got 0");
  EXPECT_ERROR(TopK(1.5), "topk: expected a ratio above 0 and at most 1, got 1.5");
}

}  // namespace
}  // namespace brigade::dist
