// Ranks as threads, each with mappings of its own, exactly as processes have.
#include "dist/shared_memory.h"

#include <gmock/gmock.h>
#include <sys/mman.h>

#include <array>
#include <thread>

#include "tests/support/expect_error.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(SharedBarrier, NobodyLeavesBeforeAllHaveCome) {
  constexpr int kRanks = 4;
  constexpr int kRounds = 300;
  SharedBarrier barrier;
  std::array<int, kRanks> counts{};  // plain: the barrier is what orders reads and writes
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      const Patience patience{.in_a_hurry = [rank] { return rank % 2 == 0; }};
      for (int round = 1; round <= kRounds; ++round) {
        counts[rank] = round;
        barrier.arrive(kRanks, patience);
        EXPECT_THAT(counts, Each(round));
        barrier.arrive(kRanks, patience);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(SharedBarrier, AWaiterThatIsToldToGiveUpThrows) {
  SharedBarrier barrier;
  const Patience none{.check = [] { throw Error("nobody will come"); }};
  EXPECT_THROW(barrier.arrive(2, none), Error);
}

TEST(SharedWindow, WhatARankWritesIntoAnothersPartIsReadThere) {
  test::thread_world(3, [](Communicator& comm) {
    const SharedWindow window(comm, 5000);
    const int next = (comm.rank() + 1) % 3;
    window.of(next)[4999] = static_cast<std::byte>(10 + comm.rank());
    comm.barrier();
    EXPECT_EQ(window.of(comm.rank())[4999], static_cast<std::byte>(10 + (comm.rank() + 2) % 3));
    EXPECT_EQ(window.of(comm.rank())[4998], std::byte{0}) << "new memory is zero";
  });
}

TEST(SharedWindow, MemoryThatCannotBeHadIsAnErrorOnAllRanksAlike) {
  test::thread_world(2, [](Communicator& comm) {
    // Longer than any file can be: refused at once, and not after having eaten the memory.
    constexpr std::size_t kTooLong = std::size_t{1} << 63U;
    EXPECT_THAT([&] { SharedWindow(comm, comm.rank() == 1 ? kTooLong : 100); },
                ThrowsMessage<Error>(HasSubstr("shared memory: rank 1 cannot allocate its part")));
    comm.barrier();
  });
}

/// sum() on the communication thread, as a communicator calls it.
void reduce(Communicator& comm, SharedMemory& memory, const Tensor& tensor) {
  comm.wait(comm.enqueue(tensor, "sum", [&](Collectives&) { memory.sum(tensor); }), kCpu);
}

TEST(SharedMemory, ABufferMayOutliveTheRanksThatMadeIt) {
  test::thread_world(2, [](Communicator& comm) {
    Tensor buffer;
    {
      SharedMemory memory(comm, {});
      buffer = memory.make_buffer({100}, DType::f32);
      buffer.data<float>()[7] = static_cast<float>(comm.rank() + 1);
      reduce(comm, memory, buffer);
    }
    comm.barrier();
    EXPECT_EQ(buffer.data<float>()[7], 3.0F);
    buffer.data<float>()[99] = 1.0F;
  });
}

TEST(SharedMemory, BucketsAndOtherTensorsTakeTurns) {
  test::thread_world(2, [](Communicator& comm) {
    SharedMemory memory(comm, {});
    for (int round = 0; round < 20; ++round) {
      const Tensor buffer = memory.make_buffer({1000 + 100 * round}, DType::f32);
      const Tensor outside = Tensor::zeros({1000});
      buffer.data<float>()[999] = 1.0F;
      outside.data<float>()[999] = 2.0F;
      reduce(comm, memory, buffer);
      reduce(comm, memory, outside);
      EXPECT_EQ(buffer.data<float>()[999], 2.0F);
      EXPECT_EQ(outside.data<float>()[999], 4.0F);
    }
  });
}

TEST(SharedMemory, MemoryInThePlaceOfADeadBucketIsNotMistakenForIt) {
  constexpr std::size_t kBytes = 4096;
  test::thread_world(1, [](Communicator& comm) {
    SharedMemory memory(comm, {});
    Tensor bucket = memory.make_buffer({kBytes / sizeof(float)}, DType::f32);
    std::byte* place = bucket.bytes();
    bucket = Tensor();
    const std::shared_ptr<void> mapping(
        mmap(place, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        [](void* start) { munmap(start, kBytes); });
    ASSERT_EQ(mapping.get(), place);
    const Tensor newcomer = Tensor::over(mapping, place, {8}, DType::f32);
    newcomer.data<float>()[7] = 5.0F;
    memory.sum(newcomer);
    EXPECT_EQ(newcomer.data<float>()[7], 5.0F);
    EXPECT_FALSE(memory.all_gather(newcomer));
  });
}

TEST(SharedMemory, RanksThatReduceDifferentBucketsAreToldSo) {
  test::thread_world(2, [](Communicator& comm) {
    SharedMemory memory(comm, {});
    const Tensor first = memory.make_buffer({64}, DType::f32);
    const Tensor second = memory.make_buffer({64}, DType::f32);
    EXPECT_THAT([&] { memory.sum(comm.rank() == 0 ? first : second); },
                ThrowsMessage<Error>(HasSubstr("brings 256 bytes at 0 of window")));
    comm.barrier();
  });
}

TEST(SharedMemory, OnlyNumbersThatCanBeAddedAreTaken) {
  test::thread_world(1, [](Communicator& comm) {
    SharedMemory memory(comm, {});
    EXPECT_ERROR(memory.sum(memory.make_buffer({8}, DType::i64)),
                 "expected a f32 or f64 tensor, got i64");
  });
}

}  // namespace
}  // namespace brigade::dist
