#include "dist/hooks/power_sgd.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/hook_bench.h"
#include "tests/support/small_training.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using test::HookBench;
using test::relative_l2;
using test::thread_world;
using testing::ElementsAre;

HookBench bench(Communicator& comm, std::int64_t rank, const std::vector<Shape>& shapes) {
  return {comm, std::make_unique<PowerSgd>(rank), shapes};
}

/// scale · u vᵀ with u = (1, 2, 3, ...) and v = (1, -1, 2, -2, 3, ...).
std::vector<float> outer_product(std::int64_t rows, std::int64_t cols, float scale) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const auto v = static_cast<float>(j / 2 + 1) * (j % 2 == 0 ? 1.0F : -1.0F);
      values.push_back(scale * static_cast<float>(i + 1) * v);
    }
  }
  return values;
}

/// Of full rank, with singular values of comparable size; another one on each rank.
std::vector<float> full_rank(std::int64_t rows, std::int64_t cols, int rank) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    values.push_back(static_cast<float>(std::sin(static_cast<double>(i * i + rank) * 1.3)));
  }
  return values;
}

std::vector<float> sum_of(const std::vector<std::vector<float>>& all) {
  std::vector<float> sum(all.front().size(), 0.0F);
  for (const std::vector<float>& one : all) {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += one[i];
    }
  }
  return sum;
}

std::vector<float> times(float factor, std::vector<float> values) {
  for (float& value : values) {
    value *= factor;
  }
  return values;
}

TEST(PowerSgd, ReproducesAMatrixOfItsRank) {
  for (const int size : {1, 2, 3}) {
    thread_world(size, [&](Communicator& comm) {
      const auto share = static_cast<float>(comm.rank() + 1);
      const auto total = static_cast<float>(size * (size + 1) / 2);  // 1 + 2 + ... + size
      const std::vector<float> sum = bench(comm, 1, {{5, 7}}).reduce(outer_product(5, 7, share));
      EXPECT_LT(relative_l2(sum, outer_product(5, 7, total)), 1e-6);
    });
  }
}

TEST(PowerSgd, TwoGradientsOfRankOneAreASumOfRankTwo) {
  thread_world(2, [](Communicator& comm) {
    std::vector<float> mine(5 * 7, 0.0F);
    mine[comm.rank() == 0 ? 3 : 18] = 2.0F;
    const std::vector<float> expected = sum_of(test::from_all(comm, mine));
    EXPECT_LT(relative_l2(bench(comm, 2, {{5, 7}}).reduce(mine), expected), 1e-6);
    EXPECT_GT(relative_l2(bench(comm, 1, {{5, 7}}).reduce(mine), expected), 0.1);
  });
}

TEST(PowerSgd, SumsVectorsAndSmallMatricesExactly) {
  thread_world(3, [](Communicator& comm) {
    // (2 + 2) 1 numbers for 2 x 2: nothing to gain. Three dimensions count as [4, 6].
    HookBench mixed = bench(comm, 1, {{3}, {2, 2}, {4, 2, 3}});
    std::vector<float> mine{1, 2, 3, 4, 5, 6, 7};
    const std::vector<float> matrix = outer_product(4, 6, 1.0F);
    mine.insert(mine.end(), matrix.begin(), matrix.end());
    const std::vector<float> sum = mixed.reduce(mine);
    EXPECT_THAT(std::vector<float>(sum.begin(), sum.begin() + 7),
                ElementsAre(3, 6, 9, 12, 15, 18, 21));
    EXPECT_LT(relative_l2({sum.begin() + 7, sum.end()}, times(3.0F, matrix)), 1e-6);
  });
}

TEST(PowerSgd, WhatIsLeftOutComesLater) {
  thread_world(3, [](Communicator& comm) {
    const std::vector<float> mine = full_rank(8, 6, comm.rank());
    const std::vector<float> sum = sum_of(test::from_all(comm, mine));
    HookBench rank_one = bench(comm, 1, {{8, 6}});
    std::vector<float> applied = rank_one.reduce(mine);
    EXPECT_GT(relative_l2(applied, sum), 0.5) << "a single step misses most of it";
    constexpr int kSteps = 100;
    for (int step = 1; step < kSteps; ++step) {
      applied = sum_of({applied, rank_one.reduce(mine)});
    }
    EXPECT_LT(relative_l2(applied, times(kSteps, sum)), 0.1) << "many steps together do not";
  });
}

TEST(PowerSgd, StepsAreOnePowerIteration) {
  thread_world(1, [](Communicator& comm) {
    // Singular values 3, 2 and 1 in 4 x 5: the best approximation of rank 1 keeps the 3 alone.
    std::vector<float> matrix(20, 0.0F);
    matrix[0] = 1.0F;
    matrix[6] = 3.0F;
    matrix[12] = 2.0F;
    std::vector<float> best(20, 0.0F);
    best[6] = 3.0F;
    HookBench rank_one = bench(comm, 1, {{4, 5}});
    std::vector<float> approximation = rank_one.reduce(matrix);
    EXPECT_GT(relative_l2(approximation, best), 0.1) << "a random Q is not there yet";
    for (int step = 0; step < 12; ++step) {
      // Handing in what was applied makes gradient + error feedback the same matrix in every step.
      approximation = rank_one.reduce(approximation);
    }
    EXPECT_LT(relative_l2(approximation, best), 1e-3);
  });
}

TEST(PowerSgd, AStepWithoutGradientDoesNotEndTheIteration) {
  thread_world(2, [](Communicator& comm) {
    HookBench rank_one = bench(comm, 1, {{5, 7}});
    const std::vector<float> mine = outer_product(5, 7, 1.0F);
    EXPECT_EQ(rank_one.reduce(std::vector<float>(35, 0.0F)), std::vector<float>(35, 0.0F));
    const std::vector<float> first = rank_one.reduce(mine);
    const std::vector<float> second = rank_one.reduce(mine);
    EXPECT_LT(relative_l2(sum_of({first, second}), times(4.0F, mine)), 1e-5)
        << "two ranks, two steps";
  });
}

TEST(PowerSgd, SendsThinMatricesInsteadOfAThickOne) {
  thread_world(4, [](Communicator& comm) {
    bench(comm, 2, {{20, 30}, {20}}).reduce(std::vector<float>(620, 1.0F));
    // P [20, 2] and 20 exact numbers in one sum, Q [30, 2] in another; all ranks together send
    // 2 (N-1) times that.
    EXPECT_EQ(test::sum_over_ranks(comm, comm.bytes_sent()), (2 * 20 + 20 + 2 * 30) * 4 * 6);
    EXPECT_EQ(comm.collectives(), 1U);
  });
}

TEST(PowerSgd, LetsNanPass) {
  thread_world(2, [](Communicator& comm) {
    std::vector<float> mine = outer_product(5, 7, 1.0F);
    mine.back() = comm.rank() == 1 ? NAN : mine.back();
    for (const float value : bench(comm, 1, {{5, 7}}).reduce(mine)) {
      EXPECT_TRUE(std::isnan(value));
    }
  });
}

TEST(PowerSgd, NeedsARank) {
  EXPECT_ERROR(PowerSgd(0), "powersgd: expected a rank of at least 1, got 0");
}

}  // namespace
}  // namespace brigade::dist
