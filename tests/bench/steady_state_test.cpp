#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>

#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "core/cpu/threads.h"
#include "core/error.h"
#include "core/runtime/context.h"
#include "dist/comm/single_process.h"
#include "dist/ddp/grad_averager.h"
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

constexpr std::int64_t kRows = 8;
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

struct Options {
  dist::Communicator& comm;
  Device device = kCpu;
  bool adam = false;
  autograd::Precision precision = autograd::Precision::full;
  bool cross_entropy = false;
  std::int64_t layers = 3;
  std::size_t bucket_bytes = 16'384;
};

/// A network that learns the same few samples in every step.
class Training {
 public:
  explicit Training(const Options& options) : options_(options) {
    std::vector<std::int64_t> widths(static_cast<std::size_t>(options.layers), 64);
    widths.front() = kIn;
    widths.push_back(kOut);
    model_ = test::make_mlp(widths, 1, options.device, options.precision);
    const std::vector<autograd::Variable> parameters = model_->parameters();
    parallel_ = std::make_unique<dist::GradAverager>(
        parameters, options.comm, dist::DataParallelOptions{.bucket_bytes = options.bucket_bytes});
    if (options.adam) {
      optimizer_ = std::make_unique<optim::Adam>(parameters, optim::Adam::Options{});
    } else {
      optimizer_ = std::make_unique<optim::SGD>(parameters,
                                                optim::SGD::Options{.lr = 0.01, .momentum = 0.9});
    }
    x_ = test::data_rows(0, kRows, kIn, 3, options.device);
    target_ = test::data_rows(0, kRows, kOut, 4, options.device);
    labels_ =
        Tensor::from(std::vector<std::int64_t>{0, 9, 1, 8, 2, 7, 3, 6}, {kRows}).to(options.device);
  }

  void step() {
    optimizer_->zero_grad();
    forward().backward();
    optimizer_->step();
  }

  std::size_t buckets() const { return parallel_->buckets().size(); }

 private:
  autograd::Variable forward() {
    const autograd::Variable y = model_->forward(autograd::Variable(x_));
    return options_.cross_entropy ? autograd::cross_entropy(y, labels_)
                                  : autograd::mse_loss(y, target_);
  }

  Options options_;
  std::unique_ptr<nn::Sequential> model_;
  std::unique_ptr<dist::GradAverager> parallel_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Tensor x_, target_, labels_;
};

PerStep steady_steps(const Options& options) {
  Training training(options);
  constexpr int kWarmUp = 5;  // the first ends with other buckets than it began with
  for (int i = 0; i < kWarmUp; ++i) {
    training.step();
  }
  const auto memory = [&] { return Context::current().memory_stats(options.device); };
  const MemoryStats before = memory();
  const std::uint64_t host_before = host_allocations;
  for (std::uint64_t i = 0; i < kSteps; ++i) {
    training.step();
  }
  const std::uint64_t host = host_allocations - host_before;
  const MemoryStats after = memory();
  return {.tensor_allocations = after.system_allocations - before.system_allocations,
          .zero_fills = after.zero_fills - before.zero_fills,
          .host_allocations = static_cast<double>(host) / static_cast<double>(kSteps),
          .buckets = training.buckets()};
}

/// A closure on the communication stream, the collective in it, and the event behind it.
constexpr double kHostAllocationsPerBucket = 3.0;

/// The graph of a layer: node, inputs, states of output and gradient, and the memory's owners.
constexpr double kHostAllocationsPerLayer = 9.0;

/// The loss, and the lists of one backward.
constexpr double kHostAllocationsPerStep = 25.0;

/// On one thread, in a forward product: oneDNN 2.6 builds a map of its arguments in every call.
constexpr double kHostAllocationsPerProduct = 7.0;

void expect_few_host_allocations(const PerStep& found, std::int64_t layers,
                                 std::int64_t products_on_one_thread = 0) {
  EXPECT_LT(found.host_allocations,
            kHostAllocationsPerBucket * static_cast<double>(found.buckets) +
                kHostAllocationsPerLayer * static_cast<double>(layers) +
                kHostAllocationsPerProduct * static_cast<double>(products_on_one_thread) +
                kHostAllocationsPerStep);
}

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

TEST(SteadyState, StepAllocatesNoTensorsAndFewHostBlocksPerLayer) {
  dist::SingleProcessCommunicator comm(kCpu);
  for (const bool adam : {false, true}) {
    for (const std::int64_t layers : {3, 12}) {
      for (const std::size_t bucket_bytes : {std::size_t{16'384}, std::size_t{1} << 20U}) {
        const PerStep found = steady_steps(
            {.comm = comm, .adam = adam, .layers = layers, .bucket_bytes = bucket_bytes});
        expect_steady_tensors(found);
        std::printf("%lld layers, %zu buckets: %g host allocations per step\n",
                    static_cast<long long>(layers), found.buckets, found.host_allocations);
        expect_few_host_allocations(found, layers);
      }
    }
  }
}

TEST(SteadyState, NorDoesAStepOnOneThreadWhichHasItsOwnLibraryForProducts) {
  constexpr std::int64_t kLayers = 12;
  set_cpu_threads(1);
  dist::SingleProcessCommunicator comm(kCpu);
  const PerStep found = steady_steps({.comm = comm, .layers = kLayers});
  expect_steady_tensors(found);
  std::printf("%zu buckets: %g host allocations per step\n", found.buckets, found.host_allocations);
  expect_few_host_allocations(found, kLayers, kLayers);
}

/// Both optimizers, factors in f32 and bf16, both losses.
void expect_steady_in_every_way(Device device) {
  constexpr std::int64_t kLayers = 3;
  dist::SingleProcessCommunicator comm(device);
  for (const bool adam : {false, true}) {
    for (const auto precision : {autograd::Precision::full, autograd::Precision::bf16}) {
      for (const bool cross_entropy : {false, true}) {
        SCOPED_TRACE(fmt::format("adam {}, bf16 {}, cross entropy {}", adam,
                                 precision == autograd::Precision::bf16, cross_entropy));
        expect_steady_tensors(steady_steps({.comm = comm,
                                            .device = device,
                                            .adam = adam,
                                            .precision = precision,
                                            .cross_entropy = cross_entropy,
                                            .layers = kLayers}));
      }
    }
  }
}

TEST(SteadyState, NoWayToMakeAStepAllocatesOrFills) {
  set_cpu_threads(1);
  expect_steady_in_every_way(kCpu);
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
  expect_steady_in_every_way(kGpu);
}

}  // namespace
}  // namespace brigade
