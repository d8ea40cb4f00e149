#include "dist/hooks/half_hook.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/share.h"
#include "dist/comm/gather.h"
#include "tests/support/expect_error.h"
#include "tests/support/hook_bench.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using test::HookBench;
using test::thread_world;
using testing::Each;
using testing::ElementsAre;

HookBench bench(Communicator& comm, DType wire, const std::vector<Shape>& shapes) {
  return {comm, std::make_unique<HalfHook>(wire), shapes};
}

/// Numbers in ±1 that need more than 16 bits, others on each rank.
std::vector<float> numbers(std::size_t count, int rank) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(std::sin(static_cast<double>(i * 7 + 1) * (rank + 1)));
  }
  return values;
}

TEST(HalfHook, AddsInFloat) {
  thread_world(3, [](Communicator& comm) {
    HookBench one = bench(comm, DType::bf16, {{1}});
    // In bf16, which has 8 bits, 256 + 1 is 256 again.
    EXPECT_THAT(one.reduce({comm.rank() == 0 ? 256.0F : 1.0F}), ElementsAre(258.0F));
  });
}

TEST(HalfHook, AddsInTheOrderOfTheRanksWhoeverOwnsTheChunk) {
  thread_world(3, [](Communicator& comm) {
    // (2^30 - 2^30) + 1 = 1, but 1 + 2^30 is 2^30 in float as well.
    const std::vector<float> of_rank{0x1p30F, -0x1p30F, 1.0F};
    const std::vector<float> mine(48, of_rank[static_cast<std::size_t>(comm.rank())]);
    EXPECT_THAT(bench(comm, DType::bf16, {{48}}).reduce(mine), Each(1.0F));
  });
}

TEST(HalfHook, TheOwnerOfAChunkUsesTheRoundedSumLikeEverybodyElse) {
  thread_world(2, [](Communicator& comm) {
    HookBench sixteen = bench(comm, DType::bf16, {{16}});
    // Both numbers fit into 8 bits, their sum 1 + 2^-8 does not.
    const std::vector<float> mine(16, comm.rank() == 0 ? 1.0F : 0x1p-8F);
    EXPECT_THAT(sixteen.reduce(mine), Each(1.0F));
  });
}

TEST(HalfHook, IsWithinTwoRoundingsOfTheSum) {
  for (const int size : {2, 3, 4}) {
    thread_world(size, [&](Communicator& comm) {
      const std::vector<float> mine = numbers(37, comm.rank());
      const std::vector<std::vector<float>> all = test::from_all(comm, mine);
      const std::vector<float> half = bench(comm, DType::f16, {{37}}).reduce(mine);
      const std::vector<float> brain = bench(comm, DType::bf16, {{37}}).reduce(mine);
      for (std::size_t i = 0; i < mine.size(); ++i) {
        double sum = 0.0;
        double sizes = 0.0;
        for (const std::vector<float>& theirs : all) {
          sum += static_cast<double>(theirs[i]);
          sizes += std::abs(static_cast<double>(theirs[i]));
        }
        EXPECT_NEAR(half[i], sum, sizes * 2 * 0x1p-11);
        EXPECT_NEAR(brain[i], sum, sizes * 2 * 0x1p-8);
      }
      EXPECT_NE(half, brain);
    });
  }
}

TEST(HalfHook, TheResultDoesNotDependOnTheBucketsBoundaries) {
  thread_world(3, [](Communicator& comm) {
    const std::vector<float> mine = numbers(50, comm.rank());
    const std::vector<float> first(mine.begin(), mine.begin() + 16);
    const std::vector<float> second(mine.begin() + 16, mine.end());
    std::vector<float> apart = bench(comm, DType::f16, {{16}}).reduce(first);
    const std::vector<float> rest = bench(comm, DType::f16, {{34}}).reduce(second);
    apart.insert(apart.end(), rest.begin(), rest.end());
    EXPECT_EQ(bench(comm, DType::f16, {{16}, {34}}).reduce(mine), apart);
  });
}

TEST(HalfHook, HalfOverflowsWhereBrainFloatDoesNot) {
  thread_world(2, [](Communicator& comm) {
    const std::vector<float> mine{70000.0F, 40000.0F, -40000.0F, comm.rank() == 0 ? 1.0F : NAN};
    const std::vector<float> half = bench(comm, DType::f16, {{4}}).reduce(mine);
    EXPECT_EQ(half[0], INFINITY) << "too large by itself";
    EXPECT_EQ(half[1], INFINITY) << "too large as a sum";
    EXPECT_EQ(half[2], -INFINITY);
    EXPECT_TRUE(std::isnan(half[3]));
    const std::vector<float> brain = bench(comm, DType::bf16, {{4}}).reduce(mine);
    EXPECT_NEAR(brain[0], 140000.0F, 600.0F);
    EXPECT_NEAR(brain[1], 80000.0F, 300.0F);
    EXPECT_TRUE(std::isnan(brain[3]));
  });
}

TEST(HalfHook, SendsHalfOfAnAllReduce) {
  for (const int size : {1, 2, 3, 4}) {
    thread_world(size, [&](Communicator& comm) {
      bench(comm, DType::f16, {{50}}).reduce(numbers(50, comm.rank()));
      const auto ranks = static_cast<std::uint64_t>(size);
      // 50 numbers are 64 with padding, which three ranks cannot share evenly.
      const auto mine = static_cast<std::uint64_t>(share_of(64, comm.rank(), size).count);
      EXPECT_EQ(comm.bytes_sent(), 2 * (64 - mine) + 2 * (ranks - 1) * mine);
      std::uint64_t total = 0;
      for (const std::uint64_t bytes : all_gather_values(comm, comm.bytes_sent())) {
        total += bytes;
      }
      EXPECT_EQ(total, 2 * (ranks - 1) * 64 * 2) << "all ranks together";
    });
  }
}

TEST(HalfHook, NeedsGradientsInF32) {
  thread_world(1, [](Communicator& comm) {
    const std::vector<autograd::Variable> parameters{
        autograd::Variable(Tensor::zeros({2}, DType::f64), true, "w")};
    const std::vector<Bucket> buckets = make_buckets(parameters, {{0}});
    HalfHook hook(DType::f16);
    EXPECT_ERROR(hook.prepare(parameters, buckets, comm),
                 "fp16 hook: expected gradients in f32, got f64; use --comm-hook none");
  });
  EXPECT_ERROR(HalfHook(DType::f32), "half hook: expected f16 or bf16, got f32");
}

}  // namespace
}  // namespace brigade::dist
