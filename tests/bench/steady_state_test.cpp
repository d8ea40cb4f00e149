#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>

#include "autograd/engine.h"
#include "autograd/functions/mse_loss.h"
#include "core/context.h"
#include "core/cpu/threads.h"
#include "dist/data_parallel.h"
#include "dist/single_process.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/support/small_model.h"
#include "tests/support/thread_world.h"

namespace {

// Every operator new of this program, on any thread.
std::atomic<std::uint64_t> host_allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  host_allocations.fetch_add(1, std::memory_order_relaxed);
  void* block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block == nullptr) {
    throw std::bad_alloc();
  }
  return block;
}

}  // namespace

void* operator new(std::size_t bytes) {
  return counted(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t /*bytes*/) noexcept {
  std::free(block);
}
void operator delete(void* block, std::align_val_t /*alignment*/) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(block);
}

namespace brigade {
namespace {

constexpr std::int64_t kIn = 32;
constexpr std::int64_t kOut = 10;
constexpr std::uint64_t kSteps = 20;

/// What one step costs the memory of this rank, in calls.
struct PerStep {
  std::uint64_t tensor_allocations = 0;  ///< that went to the system
  std::uint64_t zero_fills = 0;
  double host_allocations = 0.0;  ///< of the whole process
  std::size_t buckets = 0;
};

struct Training {
  dist::Communicator& comm;
  Device device = kCpu;
  bool adam = false;
  std::int64_t layers = 3;
  std::size_t bucket_bytes = 16'384;
};

PerStep steady_steps(const Training& training) {
  std::vector<std::int64_t> widths(static_cast<std::size_t>(training.layers), 64);
  widths.front() = kIn;
  widths.push_back(kOut);
  const auto model = test::make_mlp(widths, 1, training.device);
  const std::vector<autograd::Variable> parameters = model->parameters();
  dist::DataParallel parallel(parameters, training.comm, {.bucket_bytes = training.bucket_bytes});
  const std::unique_ptr<optim::Optimizer> optimizer =
      training.adam ? std::unique_ptr<optim::Optimizer>(
                          std::make_unique<optim::Adam>(parameters, optim::Adam::Options{}))
                    : std::make_unique<optim::SGD>(
                          parameters, optim::SGD::Options{.lr = 0.01, .momentum = 0.9});
  const Tensor x = test::data_rows(0, 8, kIn, 3, training.device);
  const Tensor target = test::data_rows(0, 8, kOut, 4, training.device);
  const auto step = [&] {
    optimizer->zero_grad();
    autograd::backward(autograd::mse_loss(model->forward(autograd::Variable(x)), target));
    optimizer->step();
  };

  constexpr int kWarmUp = 5;  // the first ends with other buckets than it began with
  for (int i = 0; i < kWarmUp; ++i) {
    step();
  }
  const auto memory = [&] { return Context::current().allocator(training.device)->stats(); };
  const MemoryStats before = memory();
  const std::uint64_t host_before = host_allocations;
  for (std::uint64_t i = 0; i < kSteps; ++i) {
    step();
  }
  const std::uint64_t host = host_allocations - host_before;
  const MemoryStats after = memory();
  return {.tensor_allocations = after.system_allocations - before.system_allocations,
          .zero_fills = after.zero_fills - before.zero_fills,
          .host_allocations = static_cast<double>(host) / static_cast<double>(kSteps),
          .buckets = parallel.buckets().size()};
}

/// A closure on the communication stream, the collective in it, and the event behind it. Nothing
/// per node, layer or parameter.
constexpr double kHostAllocationsPerBucket = 3.0;

void expect_steady_tensors(const PerStep& found) {
  EXPECT_EQ(found.tensor_allocations, 0U);
  EXPECT_EQ(found.zero_fills, 0U);
}

TEST(SteadyState, CountersSeeWhatTheyCount) {
  const auto memory = [] { return Context::current().allocator(kCpu)->stats(); };
  const MemoryStats before = memory();
  const std::uint64_t host_before = host_allocations;
  const Tensor fresh = Tensor::zeros({12'345});
  const std::vector<int> list(1000);
  EXPECT_EQ(memory().system_allocations - before.system_allocations, 1U);
  EXPECT_EQ(memory().zero_fills - before.zero_fills, 1U);
  EXPECT_GT(host_allocations, host_before);
}

TEST(SteadyState, StepAllocatesNothingButWhatItsCollectivesNeed) {
  dist::SingleProcessCommunicator comm(kCpu);
  for (const bool adam : {false, true}) {
    for (const std::int64_t layers : {3, 12}) {
      for (const std::size_t bucket_bytes : {std::size_t{16'384}, std::size_t{1} << 20U}) {
        const PerStep found = steady_steps(
            {.comm = comm, .adam = adam, .layers = layers, .bucket_bytes = bucket_bytes});
        expect_steady_tensors(found);
        std::printf("%lld layers, %zu buckets: %g host allocations per step\n",
                    static_cast<long long>(layers), found.buckets, found.host_allocations);
        // A queue may once find itself longer than ever before: less than one in a step.
        EXPECT_LT(found.host_allocations,
                  kHostAllocationsPerBucket * static_cast<double>(found.buckets) + 1.0);
      }
    }
  }
}

TEST(SteadyState, NorDoesAStepOnOneThreadWhichHasItsOwnLibraryForProducts) {
  constexpr std::int64_t kLayers = 12;
  constexpr double kOwnPerProduct = 7.0;  // oneDNN 2.6 builds a map of its arguments in every call
  set_cpu_threads(1);
  dist::SingleProcessCommunicator comm(kCpu);
  const PerStep found = steady_steps({.comm = comm, .layers = kLayers});
  expect_steady_tensors(found);
  std::printf("%zu buckets: %g host allocations per step\n", found.buckets, found.host_allocations);
  EXPECT_LT(found.host_allocations, kHostAllocationsPerBucket * static_cast<double>(found.buckets) +
                                        kOwnPerProduct * static_cast<double>(kLayers) + 1.0);
}

TEST(SteadyState, NeitherDoTwoRanksAllocateOrFillTensors) {
  test::thread_world(2, [](dist::Communicator& comm) {
    expect_steady_tensors(steady_steps({.comm = comm}));
    expect_steady_tensors(steady_steps({.comm = comm, .adam = true}));
  });
}

TEST(SteadyState, NeitherDoesAGpu) {
  if (const CudaInfo info = cuda_info(); info.device_count == 0) {
    GTEST_SKIP() << "no usable GPU: " << info.why_not;
  }
  constexpr Device kGpu{DeviceType::cuda, 0};
  dist::SingleProcessCommunicator comm(kGpu);
  expect_steady_tensors(steady_steps({.comm = comm, .device = kGpu}));
  expect_steady_tensors(steady_steps({.comm = comm, .device = kGpu, .adam = true}));
}

}  // namespace
}  // namespace brigade
