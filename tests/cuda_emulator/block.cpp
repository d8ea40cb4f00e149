#include <algorithm>
#include <boost/context/fiber.hpp>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "tests/cuda_emulator/device_private.h"
#include "tests/cuda_emulator/streams_private.h"

namespace emulator {

thread_local uint3 thread_index;
thread_local uint3 block_index;
thread_local dim3 block_size;
thread_local dim3 grid_size;

namespace {

namespace context = boost::context;

/// Forwards or backwards? Who counts on an order of threads or blocks, for want of a barrier, is
/// wrong half of the time.
bool backwards() {
  thread_local std::mt19937 random(static_cast<unsigned>(setting("EMULATOR_SEED", 1)));
  return random() % 2 == 1;
}

/// A block that is being executed, its threads as fibers. Most kernels never wait: then one fiber
/// takes one thread after the other. A thread that waits keeps its fiber, and the next ones get
/// another.
class Block {
 public:
  Block(const char* name, const Work& thread)
      : name_(name), thread_(thread), count_(block_size.x * block_size.y * block_size.z) {}

  void execute() {
    while (next_ < count_) {
      resume(
          context::fiber(std::allocator_arg, context::fixedsize_stack(64 * 1024),
                         [this](context::fiber&& scheduler) { return run(std::move(scheduler)); }));
    }
    while (!waiting_.empty()) {
      if (waiting_.size() != count_) {
        std::fprintf(stderr, "emulator: %s: %zu of %u threads of a block wait for the others\n",
                     name_, waiting_.size(), count_);
        std::abort();
      }
      std::vector<context::fiber> resumed = std::exchange(waiting_, {});
      if (backwards()) {
        std::ranges::reverse(resumed);
      }
      for (context::fiber& fiber : resumed) {
        resume(std::move(fiber));
      }
    }
  }

  /// On a fiber.
  void wait() {
    const uint3 me = thread_index;
    waits_ = true;
    scheduler_ = std::move(scheduler_).resume();
    thread_index = me;
  }

 private:
  context::fiber run(context::fiber&& scheduler) {
    scheduler_ = std::move(scheduler);
    while (next_ < count_) {
      const unsigned i = backwards_ ? count_ - 1 - next_ : next_;
      ++next_;
      thread_index = {i % block_size.x, i / block_size.x % block_size.y,
                      i / (block_size.x * block_size.y)};
      thread_();
    }
    return std::move(scheduler_);
  }

  void resume(context::fiber fiber) {
    waits_ = false;
    fiber = std::move(fiber).resume();
    if (waits_) {
      waiting_.push_back(std::move(fiber));
    }
  }

  const char* name_;
  const Work& thread_;
  unsigned count_;
  unsigned next_ = 0;
  bool backwards_ = backwards();
  bool waits_ = false;
  context::fiber scheduler_;
  std::vector<context::fiber> waiting_;
};

thread_local Block* current_block = nullptr;

void execute(const char* name, dim3 grid, dim3 block, const Work& thread) {
  grid_size = grid;
  block_size = block;
  const unsigned blocks = grid.x * grid.y * grid.z;
  const bool last_first = backwards();
  for (unsigned turn = 0; turn < blocks; ++turn) {
    const unsigned i = last_first ? blocks - 1 - turn : turn;
    block_index = {i % grid.x, i / grid.x % grid.y, i / (grid.x * grid.y)};
    Block now(name, thread);
    current_block = &now;
    now.execute();
  }
}

}  // namespace

void synchronize_block() {
  current_block->wait();
}

void launch(const char* name, dim3 grid, dim3 block, cudaStream_t stream, Work thread) {
  const unsigned threads = block.x * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0 || threads > 1024) {
    refuse(cudaErrorInvalidConfiguration, name);
    return;
  }
  if (stream != nullptr && stream->gpu != current_gpu()) {
    refuse(cudaErrorInvalidResourceHandle, "a kernel for a stream of another GPU");
    return;
  }
  submit(stream, [=, thread = std::move(thread)] { execute(name, grid, block, thread); });
}

}  // namespace emulator
