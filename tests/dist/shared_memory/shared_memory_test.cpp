// Ranks as threads, each with mappings of its own, exactly as processes have.
#include "dist/shared_memory/shared_memory.h"

#include <gmock/gmock.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
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
      const WaitPolicy policy{.spin_first = [rank] { return rank % 2 == 0; }};
      for (int round = 1; round <= kRounds; ++round) {
        counts[rank] = round;
        barrier.arrive(kRanks, policy);
        EXPECT_THAT(counts, Each(round));
        barrier.arrive(kRanks, policy);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(SharedBarrier, AWaiterThatIsToldToGiveUpThrows) {
  SharedBarrier barrier;
  const WaitPolicy none{.check = [] { throw Error("nobody will come"); }};
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
  comm.wait(comm.enqueue(tensor, "sum", [&](Collectives&) { memory.sum(tensor); }));
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

TEST(SharedMemory, HasRoomForMoreBuffersThanAProcessMayHaveMappings) {
  test::thread_world(2, [](Communicator& comm) {
    SharedMemory memory(comm, {});
    std::vector<Tensor> buffers;
    for (std::int64_t i = 0; i < 40'000; ++i) {  // of 65,530 mappings; two ranks, two each
      buffers.push_back(memory.make_buffer({1 + i % 40}, DType::f32));
    }
    std::ifstream maps("/proc/self/maps");
    int windows = 0;
    for (std::string line; std::getline(maps, line);) {
      windows += line.find("brigade-window") != std::string::npos ? 1 : 0;
    }
    EXPECT_GT(windows, 0);
    EXPECT_LT(windows, 100);
    for (const std::size_t i : {std::size_t{0}, std::size_t{12'345}, buffers.size() - 1}) {
      const Tensor& buffer = buffers[i];
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.bytes()) % 64, 0U);
      EXPECT_THAT(buffer.to_vector<float>(), Each(0.0F));
      std::fill_n(buffer.data<float>(), buffer.numel(), static_cast<float>(comm.rank() + 1));
      reduce(comm, memory, buffer);
      EXPECT_THAT(buffer.to_vector<float>(), Each(3.0F));
      comm.barrier();
    }
    EXPECT_THAT(buffers[1].to_vector<float>(), Each(0.0F)) << "a neighbour's memory is its own";
  });
}

TEST(SharedMemory, MemoryInThePlaceOfADeadBucketIsNotMistakenForIt) {
  constexpr std::size_t kBytes = 1U << 20U;  // so many that its window is its own
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
                ThrowsMessage<Error>(HasSubstr(comm.rank() == 0
                                                   ? "rank 0 brings 256 bytes at 0 of window 1, "
                                                     "rank 1 256 at 256 of 1"
                                                   : "rank 1 brings 256 bytes at 256 of window 1, "
                                                     "rank 0 256 at 0 of 1")));
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
