// What the emulator refuses as CUDA does, and the disorder that it must show.
#include "tests/cuda_emulator/device_private.h"
// That comes first, as in a kernel's source.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <set>
#include <vector>

#include "tests/support/environment.h"

namespace {

using testing::ElementsAre;

/// Two streams and some memory of the GPU.
class Emulator : public testing::Test {
 protected:
  // Read when the first stream has something to do.
  static void SetUpTestSuite() { setenv("EMULATOR_DELAY_US", "100", 0); }

  Emulator() {
    for (cudaStream_t* stream : {&one_, &two_}) {
      EXPECT_EQ(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, 0), cudaSuccess);
    }
    EXPECT_EQ(cudaEventCreateWithFlags(&written_, cudaEventDisableTiming), cudaSuccess);
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&memory_), kNumbers * sizeof(int)), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(memory_, 0, kNumbers * sizeof(int), one_), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(one_), cudaSuccess);
  }
  ~Emulator() override {
    cudaFree(memory_);
    cudaEventDestroy(written_);
    cudaStreamDestroy(one_);
    cudaStreamDestroy(two_);
  }

  /// memory[to] = memory[from] + add
  void enqueue(cudaStream_t stream, int to, int from, int add) {
    emulator::Launch("add", dim3(1), dim3(1), 0, stream)
        .of([](int* memory, int t, int f, int a) { memory[t] = memory[f] + a; }, memory_, to, from,
            add);
  }

  std::vector<int> numbers(std::size_t count) {
    std::vector<int> values(count);
    EXPECT_EQ(cudaStreamSynchronize(two_), cudaSuccess);
    EXPECT_EQ(
        cudaMemcpyAsync(values.data(), memory_, count * sizeof(int), cudaMemcpyDeviceToHost, one_),
        cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(one_), cudaSuccess);
    return values;
  }

  static constexpr std::size_t kNumbers = 1024;
  cudaStream_t one_ = nullptr, two_ = nullptr;
  cudaEvent_t written_ = nullptr;
  int* memory_ = nullptr;
};

TEST_F(Emulator, RefusesAKernelForAStreamOfAnotherGpu) {
  const brigade::test::EnvironmentVariable gpus("EMULATOR_GPUS", "2");
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  enqueue(one_, 0, 1, 5);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  enqueue(one_, 0, 1, 7);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_THAT(numbers(2), ElementsAre(7, 0));
}

TEST_F(Emulator, RefusesACopyOfTheWrongKind) {
  int host = 1;
  EXPECT_NE(cudaMemcpyAsync(memory_, &host, sizeof host, cudaMemcpyDeviceToHost, one_),
            cudaSuccess);
  EXPECT_NE(cudaMemcpyAsync(memory_ + kNumbers, &host, sizeof host, cudaMemcpyHostToDevice, one_),
            cudaSuccess)
      << "behind the end";
  cudaGetLastError();
}

TEST_F(Emulator, ExecutesAStreamInItsOrder) {
  for (int i = 0; i < 100; ++i) {
    enqueue(one_, 0, 0, 1);
    enqueue(one_, 1, 0, 0);
  }
  EXPECT_THAT(numbers(2), ElementsAre(100, 100));
}

TEST_F(Emulator, ShowsWhereAnEventIsNotWaitedFor) {
  // Two streams of which one reads what the other has written: with a wait always 1, without one
  // not always, because operations are late now and then.
  const auto read = [&](bool waits) {
    cudaMemsetAsync(memory_, 0, 2 * sizeof(int), one_);
    cudaStreamSynchronize(one_);
    enqueue(one_, 0, 0, 1);
    cudaEventRecord(written_, one_);
    if (waits) {
      cudaStreamWaitEvent(two_, written_, 0);
    }
    enqueue(two_, 1, 0, 0);
    return numbers(2)[1];
  };
  std::set<int> with;
  std::set<int> without;
  for (int time = 0; time < 100; ++time) {
    with.insert(read(true));
    without.insert(read(false));
  }
  EXPECT_THAT(with, ElementsAre(1));
  EXPECT_THAT(without, testing::Contains(0));
}

/// Each thread gives its number to its neighbour in the block, through shared memory.
template <bool Waits>
void pass_on(int* out) {
  __shared__ std::array<int, 64> slots;
  slots[threadIdx.x] = static_cast<int>(threadIdx.x);
  if constexpr (Waits) {
    __syncthreads();
  }
  out[threadIdx.x] = slots[(threadIdx.x + 1) % blockDim.x];
  if constexpr (Waits) {
    __syncthreads();
  }
  slots[threadIdx.x] = -1;
}

TEST_F(Emulator, MeetsAtABarrierAndShowsWhereOneIsMissing) {
  const auto is_passed_on = [&](auto kernel) {
    emulator::Launch("pass_on", dim3(1), dim3(64), 0, one_).of(kernel, memory_);
    const std::vector<int> got = numbers(64);
    for (int i = 0; i < 64; ++i) {
      if (got[static_cast<std::size_t>(i)] != (i + 1) % 64) {
        return false;
      }
    }
    return true;
  };
  EXPECT_TRUE(is_passed_on(pass_on<true>));
  EXPECT_FALSE(is_passed_on(pass_on<false>));
}

TEST_F(Emulator, EndsAKernelThatWaitsForThreadsThatNeverCome) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        emulator::Launch("half", dim3(1), dim3(64), 0, one_)
            .of(
                [](int* /*out*/) {
                  if (threadIdx.x < 32) {
                    __syncthreads();
                  }
                },
                memory_);
        cudaStreamSynchronize(one_);
      },
      "half: 32 of 64 threads of a block wait for the others");
}

TEST_F(Emulator, GivesMemoryThatIsFullOfNaN) {
  float* fresh = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&fresh), sizeof(float)), cudaSuccess);
  float value = 0;
  cudaMemcpyAsync(&value, fresh, sizeof value, cudaMemcpyDeviceToHost, one_);
  cudaStreamSynchronize(one_);
  EXPECT_TRUE(std::isnan(value));
  cudaFree(fresh);
}

}  // namespace
