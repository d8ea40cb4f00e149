// Sub-groups, the two halves of a sum, and the all-reduce that is made of them.
#include <gmock/gmock.h>

#include <chrono>
#include <latch>
#include <numeric>
#include <thread>

#include "dist/algorithms/hierarchical_all_reduce.h"
#include "dist/comm/gather.h"
#include "dist/comm/placement.h"
#include "dist/sockets/socket_communicator.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

void expect_groups_by_color_in_the_order_of_keys(Communicator& comm) {
  // Even ranks in reverse order, odd ranks in order.
  const bool even = comm.rank() % 2 == 0;
  const auto part = comm.split(even ? 0 : 1, even ? -comm.rank() : 0);
  EXPECT_EQ(part->size(), even ? 3 : 2);
  const std::vector<int> members = all_gather_values(*part, comm.rank());
  EXPECT_EQ(members, even ? (std::vector<int>{4, 2, 0}) : (std::vector<int>{1, 3}));
  Tensor one = Tensor::zeros({1});
  one.data<float>()[0] = static_cast<float>(comm.rank());
  part->blocking_all_reduce(one);
  EXPECT_EQ(one.item(), even ? 6.0 : 4.0);
}

TEST(Split, GroupsByColorAndOrdersByKey) {
  test::thread_world(5, expect_groups_by_color_in_the_order_of_keys);
}

TEST(Split, MayLeaveARankByItself) {
  test::thread_world(2, [](Communicator& comm) {
    const auto alone = comm.split(comm.rank(), 0);
    EXPECT_EQ(alone->size(), 1);
    const Tensor one = Tensor::from(std::vector<float>{1.0F}, {1});
    alone->blocking_all_reduce(one);
    EXPECT_EQ(one.item(), 1.0);
  });
}

TEST(Shares, CoverATensorOnceAndAreCutAtCacheLines) {
  for (const int size : {1, 2, 3, 5, 8}) {
    for (const std::int64_t numel : {0, 1, 15, 16, 17, 100, 1000, 4096}) {
      std::int64_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Share share = share_of(numel, rank, size);
        EXPECT_EQ(share.begin, next);
        EXPECT_TRUE(share.begin % 16 == 0 || share.count == 0);
        next = share.begin + share.count;
      }
      EXPECT_EQ(next, numel);
    }
  }
}

Tensor ramp(std::int64_t numel, int rank) {
  std::vector<float> values(static_cast<std::size_t>(numel));
  std::iota(values.begin(), values.end(), static_cast<float>(100 * rank));
  return Tensor::from(values, {numel});
}

TEST(Shares, ReduceScatterAndAllGatherAreTheTwoHalvesOfASum) {
  for (const std::int64_t numel : {1, 47, 64, 1000}) {
    test::thread_world(3, [&](Communicator& comm) {
      const Tensor values = ramp(numel, comm.rank());
      const Tensor gathered = ramp(numel, comm.rank());
      const Work work = comm.enqueue(values, "halves", [&](Collectives& ranks) {
        ranks.reduce_scatter(values);
        ranks.all_gather(gathered);
      });
      comm.wait(work);
      const Share mine = share_of(numel, comm.rank(), 3);
      for (std::int64_t i = mine.begin; i < mine.begin + mine.count; ++i) {
        EXPECT_EQ(values.data<float>()[i], static_cast<float>(3 * i + 300));
      }
      for (int owner = 0; owner < 3; ++owner) {
        const Share share = share_of(numel, owner, 3);
        for (std::int64_t i = share.begin; i < share.begin + share.count; ++i) {
          EXPECT_EQ(gathered.data<float>()[i], static_cast<float>(i + 100 * owner));
        }
      }
    });
  }
}

/// All-reduces over a made-up grid: `host_of` says which rank is on which node.
void expect_hierarchical_sums(const std::vector<int>& host_of) {
  const int size = static_cast<int>(host_of.size());
  check_equal_nodes(host_of);
  test::thread_world(size, [&](Communicator& comm) {
    const Placement place = placement_of(comm.rank(), host_of);
    const std::vector<int> across =
        all_gather_values(*comm.split(place.local_rank, comm.rank()), comm.rank());
    comm.use(
        std::make_unique<HierarchicalAllReduce>(comm.split(place.node_rank, comm.rank()), across));
    for (const std::int64_t numel : {0, 1, 15, 100, 4097}) {
      const Tensor values = ramp(numel, comm.rank());
      comm.blocking_all_reduce(values);
      for (std::int64_t i = 0; i < numel; ++i) {
        ASSERT_EQ(values.data<float>()[i], static_cast<float>(size * i + 50 * size * (size - 1)))
            << "element " << i << " of " << numel << ", rank " << comm.rank();
      }
    }
  });
}

TEST(Hierarchical, SumsOverAnyGrid) {
  expect_hierarchical_sums({0});
  expect_hierarchical_sums({0, 0, 0});           // one node
  expect_hierarchical_sums({0, 1, 2});           // one rank per node
  expect_hierarchical_sums({0, 0, 1, 1});        // 2 x 2
  expect_hierarchical_sums({0, 1, 0, 1});        // dealt out one by one
  expect_hierarchical_sums({5, 2, 2, 5, 2, 5});  // 2 x 3
}

TEST(Hierarchical, AFailingRankDoesNotWaitForAnotherNode) {
  std::latch failed(2);
  test::thread_world(4, [&](Communicator& group) {
    auto node = group.split(group.rank() / 2, group.rank());
    SocketCommunicator comm(group.split(0, group.rank()));
    comm.use(std::make_unique<HierarchicalAllReduce>(
        std::make_unique<SocketCommunicator>(std::move(node)),
        std::vector<int>{comm.rank() % 2, comm.rank() % 2 + 2}));
    if (comm.rank() < 2) {
      failed.wait();  // alive, and in no all-reduce
    } else {
      const Work never = comm.all_reduce(Tensor::zeros({64}));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // past the steps inside the node
      comm.abandon();
      EXPECT_THROW(comm.wait(never), Error);
      failed.count_down();
    }
  });
}

// Rank 2 is the second of its node, and the other of rank 0's two ranks across nodes.
TEST(Hierarchical, ALostRankIsCalledByItsNumberInTheWholeGroup) {
  test::thread_world(4, [&](Communicator& group) {
    auto node = group.split(group.rank() / 2, group.rank());
    auto comm = std::make_unique<SocketCommunicator>(group.split(0, group.rank()));
    const int place = group.rank() % 2;
    comm->use(std::make_unique<HierarchicalAllReduce>(std::move(node),
                                                      std::vector<int>{place, place + 2}));
    if (group.rank() >= 2) {
      comm.reset();  // closes its connections
      return;
    }
    const std::string lost = fmt::format("rank {} is gone", group.rank() + 2);
    EXPECT_THAT([&] { comm->blocking_all_reduce(Tensor::zeros({64})); },
                testing::ThrowsMessage<Error>(testing::HasSubstr(lost)));
  });
}

TEST(Hierarchical, CrossesTheNetworkWithOneShareOnly) {
  test::thread_world(4, [](Communicator& comm) {
    const int place = comm.rank() % 2;
    auto node = comm.split(comm.rank() / 2, comm.rank());
    const Communicator& inside = *node;
    comm.use(std::make_unique<HierarchicalAllReduce>(std::move(node),
                                                     std::vector<int>{place, place + 2}));
    const Tensor values = Tensor::zeros({1024});  // 4096 bytes
    comm.blocking_all_reduce(values);
    EXPECT_EQ(inside.bytes_sent(), 2048U + 2048U) << "both halves inside the node";
    EXPECT_EQ(comm.bytes_sent() - inside.bytes_sent(), 2048U)
        << "2 (k-1)/k of half the tensor, k = 2 nodes";
    EXPECT_EQ(comm.description(),
              "threads, hierarchical 2 x 2: ring between nodes, threads inside");
  });
}

}  // namespace
}  // namespace brigade::dist
