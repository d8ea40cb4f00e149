// Run under mpirun with any number of ranks on one host: sums through shared memory, alone and as a
// part of a made-up grid of nodes.
#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "dist/algorithms/hierarchical_all_reduce.h"
#include "dist/comm/gather.h"
#include "dist/launch/launch.h"
#include "dist/shared_memory/shared_memory_communicator.h"
#include "tests/support/small_training.h"

namespace {

bool memory_is_forbidden = false;

}  // namespace

// Called instead of the C library's, to be able to forbid it as a container may.
extern "C" int memfd_create(const char* name, unsigned int flags) noexcept {
  if (memory_is_forbidden) {
    errno = EPERM;
    return -1;
  }
  return static_cast<int>(syscall(SYS_memfd_create, name, flags));
}

namespace brigade::dist {
namespace {

/// Numbers whose sum depends on the order of the additions.
template <class T>
T number(std::int64_t index, int rank) {
  return static_cast<T>(1.0) / static_cast<T>(3 + 7 * rank + index % 1009);
}

/// One memory of each kind: a bucket of `comm`, and any other.
std::vector<Tensor> places(Communicator& comm, std::int64_t numel, DType dtype) {
  return {comm.make_buffer({numel}, dtype, kCpu), Tensor::zeros({numel}, dtype)};
}

template <class T>
void fill(const Tensor& tensor, int rank) {
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    tensor.data<T>()[i] = number<T>(i, rank);
  }
}

class SharedMemoryMpi : public testing::Test {
 protected:
  MpiCommunicator world;
  SharedMemoryCommunicator comm{world, 0, world.rank()};
};

/// Bit for bit ((v0 + v1) + v2) + ..., which is also the same on all ranks.
template <class T>
void expect_sums_in_rank_order(Communicator& comm, std::int64_t numel) {
  for (const Tensor& tensor : places(comm, numel, kDTypeOf<T>)) {
    fill<T>(tensor, comm.rank());
    comm.blocking_all_reduce(tensor);
    for (std::int64_t i = 0; i < numel; ++i) {
      T expected = number<T>(i, 0);
      for (int rank = 1; rank < comm.size(); ++rank) {
        expected += number<T>(i, rank);
      }
      ASSERT_EQ(tensor.data<T>()[i], expected) << "element " << i << " of " << numel;
    }
  }
}

TEST_F(SharedMemoryMpi, SumsAnySizeInRankOrder) {
  const std::int64_t ranks = comm.size();
  for (const std::int64_t numel :
       {std::int64_t{0}, std::int64_t{1}, ranks - 1, ranks, ranks + 1, std::int64_t{16},
        std::int64_t{1000}, std::int64_t{4099}, std::int64_t{300'001}}) {
    expect_sums_in_rank_order<float>(comm, numel);
    expect_sums_in_rank_order<double>(comm, numel);
  }
}

TEST_F(SharedMemoryMpi, ManyMayBeInFlightInAnyMixOfPlaces) {
  constexpr std::int64_t kNumel = 5000;
  std::vector<Tensor> tensors;
  for (int i = 0; i < 20; ++i) {
    const std::vector<Tensor> both = places(comm, kNumel + i, DType::f32);
    tensors.insert(tensors.end(), both.begin(), both.end());
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<Work> works;
    for (const Tensor& tensor : tensors) {
      fill<float>(tensor, comm.rank());
      works.push_back(comm.all_reduce(tensor));
    }
    comm.barrier();  // the host's own calls do not meet them
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      comm.wait(works[i]);
    }
    EXPECT_EQ(std::memcmp(tensors[0].bytes(), tensors[39].bytes(), kNumel * sizeof(float)), 0);
  }
}

TEST_F(SharedMemoryMpi, SlicesOfABucketAreSummedWhereTheyLie) {
  const Tensor bucket = comm.make_buffer({1000}, DType::f32, kCpu);
  const Tensor slice = bucket.flat_view(320, {77});
  fill<float>(slice, 0);
  comm.blocking_all_reduce(slice);
  EXPECT_FLOAT_EQ(slice.data<float>()[76], static_cast<float>(comm.size()) * number<float>(76, 0));
  EXPECT_EQ(bucket.data<float>()[319], 0.0F);
  EXPECT_EQ(bucket.data<float>()[397], 0.0F);
}

TEST_F(SharedMemoryMpi, NodesOfOneAndOneNodeAreHierarchiesToo) {
  for (const bool one_node : {true, false}) {
    MpiCommunicator grid;
    const int rank = grid.rank();
    grid.use(std::make_unique<HierarchicalAllReduce>(
        std::make_unique<SharedMemoryCommunicator>(grid, one_node ? 0 : rank, rank),
        all_gather_values(*grid.split(one_node ? rank : 0, rank), rank)));
    for (const Tensor& tensor : places(grid, 1003, DType::f32)) {
      fill<float>(tensor, 0);
      grid.blocking_all_reduce(tensor);
      EXPECT_FLOAT_EQ(tensor.data<float>()[1002],
                      static_cast<float>(grid.size()) * number<float>(1002, 0));
    }
  }
}

TEST_F(SharedMemoryMpi, TheHalvesOfASumCountAsManyBytesAsTheSum) {
  const Tensor bucket = comm.make_buffer({960}, DType::f32, kCpu);
  const auto sent_by = [&](const std::function<void(Collectives&)>& collective) {
    const std::uint64_t before = comm.bytes_sent();
    comm.wait(comm.enqueue(bucket, "test", collective));
    return comm.bytes_sent() - before;
  };
  const std::uint64_t whole = sent_by([&](Collectives& ranks) { ranks.sum(bucket); });
  EXPECT_EQ(2 * sent_by([&](Collectives& ranks) { ranks.reduce_scatter(bucket); }), whole);
  EXPECT_EQ(2 * sent_by([&](Collectives& ranks) { ranks.all_gather(bucket); }), whole);
}

/// Pretends that every two ranks are a node.
TEST_F(SharedMemoryMpi, PairsAcrossMpiAddUp) {
  if (world.size() % 2 != 0) {
    GTEST_SKIP() << world.size() << " ranks are no pairs; other numbers of them are";
  }
  const int rank = world.rank();
  auto node = std::make_unique<SharedMemoryCommunicator>(world, rank / 2, rank);
  const std::vector<int> across = all_gather_values(*world.split(rank % 2, rank), rank);
  world.use(std::make_unique<HierarchicalAllReduce>(std::move(node), across));
  for (const std::int64_t numel : {0, 1, 31, 4099}) {
    for (const Tensor& tensor : places(world, numel, DType::f64)) {
      fill<double>(tensor, rank);
      world.blocking_all_reduce(tensor);
      for (std::int64_t i = 0; i < numel; ++i) {
        double expected = 0.0;
        for (int other = 0; other < world.size(); ++other) {
          expected += number<double>(i, other);
        }
        ASSERT_NEAR(tensor.data<double>()[i], expected, 1e-12);
      }
    }
  }
}

TEST_F(SharedMemoryMpi, TrainsTheSameBitsWhateverTheBuckets) {
  if (48 % comm.size() != 0) {
    GTEST_SKIP() << "48 rows cannot be dealt out to " << comm.size() << " ranks";
  }
  const auto weights = test::train(comm, {.mode = SyncMode::overlap, .bucket_bytes = 256});
  EXPECT_EQ(test::train(comm, {.mode = SyncMode::naive}), weights);
  EXPECT_EQ(test::train(comm, {.mode = SyncMode::overlap, .bucket_bytes = 600}), weights);
  EXPECT_EQ(test::train(comm, {.mode = SyncMode::per_param}), weights);
}

TEST(RankInfo, OneHostIsOneNode) {
  MpiCommunicator world;
  const std::vector<int> hosts = world.host_of_ranks();
  EXPECT_THAT(hosts, testing::Each(0)) << "each host is called after its lowest rank";
  EXPECT_EQ(hosts.size(), static_cast<std::size_t>(world.size()));
}

TEST(AutoCommunicator, TakesMpiOnAllRanksWhereOneMayNotShareMemory) {
  const int size = MpiCommunicator().size();
  memory_is_forbidden = MpiCommunicator().rank() == size - 1;
  const auto comm = make_communicator("auto", kCpu);
  EXPECT_THAT(comm->description(), testing::StartsWith(size == 1 ? "none" : "MPI ("));
  const Tensor one = Tensor::from(std::vector<float>{1.0F}, {1});
  comm->blocking_all_reduce(one);
  EXPECT_EQ(one.item(), size);
  EXPECT_THAT([] { make_communicator("shared", kCpu); },
              testing::ThrowsMessage<Error>(
                  testing::HasSubstr(fmt::format("shared memory: rank {} cannot allocate its part: "
                                                 "Operation not permitted; use --comm mpi",
                                                 size - 1))));
  memory_is_forbidden = false;
}

TEST(AutoCommunicator, TakesSharedMemoryOnOneHost) {
  const auto comm = make_communicator("auto", kCpu);
  EXPECT_THAT(comm->description(),
              testing::StartsWith(comm->size() == 1 ? "none" : "shared memory of one host"));
}

/// Freed after MPI_Finalize, at the very end of the program.
Tensor& last_bucket() {
  static Tensor bucket;
  return bucket;
}

TEST(SharedMemoryAtTheEnd, ABucketMayOutliveMpi) {
  MpiCommunicator world;
  SharedMemoryCommunicator comm(world, 0, world.rank());
  last_bucket() = comm.make_buffer({100}, DType::f32, kCpu);
}

}  // namespace
}  // namespace brigade::dist

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return brigade::dist::run_main([](brigade::dist::MpiSession&) { return RUN_ALL_TESTS(); });
}
