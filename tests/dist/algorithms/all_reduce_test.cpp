// Every algorithm against the plain sum, over ranks that are threads.
#include "dist/algorithms/all_reduce.h"

#include <gmock/gmock.h>

#include "core/runtime/context.h"
#include "dist/algorithms/segments.h"
#include "dist/comm/gather.h"
#include "tests/support/all_reduces.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using test::expect_all_reduce_sums;
using test::make_all_reduce;
using test::terms;
using test::thread_world;

class EveryAllReduce : public testing::TestWithParam<std::string> {};

TEST_P(EveryAllReduce, IsTheSumOfAllRanksWithTheSameBitsEverywhere) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    SCOPED_TRACE(ranks);
    thread_world(ranks, [&](Communicator& comm) {
      comm.use(make_all_reduce(GetParam()));
      for (const DType dtype : {DType::f32, DType::f64}) {
        for (const std::int64_t numel : {0, 1, ranks - 1, ranks, ranks + 1, 1000, 100003}) {
          expect_all_reduce_sums(comm, numel, dtype);
        }
      }
    });
  }
}

TEST_P(EveryAllReduce, CutsLongTensorsIntoSegments) {
  thread_world(3, [&](Communicator& comm) {
    comm.use(make_all_reduce(GetParam()));
    expect_all_reduce_sums(comm, 7 * kSegmentBytes / 8 + 5, DType::f64);
  });
}

TEST_P(EveryAllReduce, TakesTensorsOfAnyShape) {
  thread_world(3, [&](Communicator& comm) {
    comm.use(make_all_reduce(GetParam()));
    const Tensor ones = Tensor::from(std::vector<float>(35, 1.0F), {5, 7});
    comm.blocking_all_reduce(ones);
    EXPECT_THAT(ones.to_vector<float>(), testing::Each(3.0F));
  });
}

INSTANTIATE_TEST_SUITE_P(All, EveryAllReduce, testing::Values("ring", "halving", "tree", "ordered"),
                         [](const auto& test) { return test.param; });

/// The bits of an all-reduce over `numel` elements, done in pieces of `piece` elements.
std::vector<float> in_pieces(int ranks, const std::string& algorithm, std::int64_t piece) {
  constexpr std::int64_t kNumel = 10000;
  std::vector<float> result;
  thread_world(ranks, [&](Communicator& comm) {
    if (!algorithm.empty()) {
      comm.use(make_all_reduce(algorithm));
    }
    const Tensor values = terms(kNumel, DType::f32, comm.rank());
    for (std::int64_t begin = 0; begin < kNumel; begin += piece) {
      comm.blocking_all_reduce(values.flat_view(begin, {std::min(piece, kNumel - begin)}));
    }
    if (comm.rank() == 0) {
      result = values.to_vector<float>();
    }
  });
  return result;
}

constexpr std::int64_t kWhole = 10000;

TEST(OrderedAllReduce, AddsEveryElementInTheOrderOfTheRanks) {
  for (const int ranks : {2, 3, 4, 5, 8}) {
    const std::vector<float> in_rank_order = in_pieces(ranks, "", kWhole);  // as threads sum
    for (const std::int64_t piece : {kWhole, kWhole / 2, std::int64_t{777}}) {
      EXPECT_EQ(in_pieces(ranks, "ordered", piece), in_rank_order) << ranks << " ranks, " << piece;
    }
  }
}

// What --reduce deterministic is for.
TEST(RingAllReduce, OrderOfAdditionsDependsOnTheBoundaries) {
  EXPECT_EQ(in_pieces(2, "ring", 777), in_pieces(2, "ring", kWhole)) << "a + b = b + a";
  for (const int ranks : {3, 4, 5, 8}) {
    EXPECT_NE(in_pieces(ranks, "ring", 777), in_pieces(ranks, "ring", kWhole)) << ranks;
  }
}

TEST(HalvingDoublingAllReduce, AddsEveryElementAlongOneTree) {
  for (const int ranks : {3, 4, 5, 8}) {
    EXPECT_EQ(in_pieces(ranks, "halving", 777), in_pieces(ranks, "halving", kWhole)) << ranks;
  }
  EXPECT_NE(in_pieces(8, "halving", kWhole), in_pieces(8, "ordered", kWhole)) << "rank order";
}

TEST(TreeAllReduce, AddsEveryElementAlongOneTree) {
  for (const int ranks : {3, 4, 5, 8}) {
    EXPECT_EQ(in_pieces(ranks, "tree", 777), in_pieces(ranks, "tree", kWhole)) << ranks;
  }
}

/// Bytes that each rank sends in one all-reduce of `numel` floats.
std::vector<std::uint64_t> bytes_sent(int ranks, const std::string& algorithm, std::int64_t numel) {
  std::vector<std::uint64_t> result;
  thread_world(ranks, [&](Communicator& comm) {
    comm.use(make_all_reduce(algorithm));
    comm.blocking_all_reduce(Tensor::zeros({numel}));
    const std::vector<std::uint64_t> all = all_gather_values(comm, comm.bytes_sent());
    if (comm.rank() == 0) {
      result = all;
    }
  });
  return result;
}

TEST(BytesSent, AreTheLeastPossibleWithRingHalvingAndDirectExchange) {
  const std::uint64_t tensor = 4U * 10240U;
  EXPECT_THAT(bytes_sent(5, "ring", 10240), testing::Each(2 * 4 * tensor / 5));
  EXPECT_THAT(bytes_sent(8, "halving", 10240), testing::Each(2 * 7 * tensor / 8));
  EXPECT_THAT(bytes_sent(5, "ordered", 10240), testing::Each(2 * 4 * tensor / 5));
}

TEST(BytesSent, OfATreeAreTheWholeTensorOncePerNeighbour) {
  const std::uint64_t tensor = 4U * 1000U;
  EXPECT_THAT(bytes_sent(7, "tree", 1000), testing::ElementsAre(2 * tensor, 3 * tensor, 3 * tensor,
                                                                tensor, tensor, tensor, tensor));
}

TEST(BytesSent, OfRanksTooManyForHalvingAreTheWholeTensor) {
  const std::uint64_t tensor = 4U * 900U;
  EXPECT_THAT(bytes_sent(3, "halving", 900), testing::ElementsAre(tensor, tensor + tensor, tensor));
}

TEST(Scratch, KeepsItsMemoryFromOneRunToTheNext) {
  const auto in_use = [] { return Context::current().allocator(kCpu)->stats().in_use; };
  Scratch scratch;
  const Tensor like = Tensor::zeros({1});
  const std::byte* first = scratch.take(100, like).bytes();
  EXPECT_EQ(scratch.take(50, like).bytes(), first);
  const std::size_t before = in_use();
  scratch.take(101, like);
  EXPECT_GE(in_use(), before + 200 * sizeof(float)) << "a GPU may still be using the first block";
  const std::size_t after = in_use();
  for (int i = 0; i < 10; ++i) {
    scratch.take(200, like);
    scratch.take(1, like);
  }
  EXPECT_EQ(in_use(), after);
}

}  // namespace
}  // namespace brigade::dist
