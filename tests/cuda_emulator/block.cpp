#include <algorithm>
#include <boost/context/fiber.hpp>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "tests/cuda_emulator/device_private.h"
#include "tests/cuda_emulator/emulator_private.h"

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
    while (waiting_ > 0) {
      Meeting* const meeting = complete();
      if (meeting == nullptr) {
        std::fprintf(stderr, "emulator: %s: %u of %u threads of a block wait for the others\n",
                     name_, waiting_, count_);
        std::abort();
      }
      std::vector<context::fiber> resumed = std::exchange(meeting->threads, {});
      waiting_ -= static_cast<unsigned>(resumed.size());
      meeting->outcome = std::exchange(meeting->votes, 0);
      if (backwards()) {
        std::ranges::reverse(resumed);
      }
      for (context::fiber& fiber : resumed) {
        resume(std::move(fiber));
      }
    }
  }

  /// On a fiber.
  void wait_for_block() { wait(meetings_.back()); }
  unsigned vote_in_warp(bool yes) {
    const unsigned me =
        (thread_index.z * block_size.y + thread_index.y) * block_size.x + thread_index.x;
    Meeting& warp = meetings_[me / kWarp];
    warp.votes |= yes ? 1U << me % kWarp : 0U;
    wait(warp);
    return warp.outcome;
  }

 private:
  static constexpr unsigned kWarp = 32;

  /// Of a warp, or of the whole block.
  struct Meeting {
    unsigned size;
    std::vector<context::fiber> threads{};  // that have come
    unsigned votes = 0;
    unsigned outcome = 0;  // of the last meeting
  };

  static std::vector<Meeting> meetings_of(unsigned count) {
    std::vector<Meeting> meetings;
    for (unsigned first = 0; first < count; first += kWarp) {
      meetings.push_back({.size = std::min(kWarp, count - first)});
    }
    meetings.push_back({.size = count});
    return meetings;
  }

  Meeting* complete() {
    const auto full = [](const Meeting& m) { return m.threads.size() == m.size; };
    const auto found = std::ranges::find_if(meetings_, full);
    return found == meetings_.end() ? nullptr : &*found;
  }

  void wait(Meeting& meeting) {
    const uint3 me = thread_index;
    waits_for_ = &meeting;
    scheduler_ = std::move(scheduler_).resume();
    thread_index = me;
  }

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
    waits_for_ = nullptr;
    fiber = std::move(fiber).resume();
    if (waits_for_ != nullptr) {
      waits_for_->threads.push_back(std::move(fiber));
      ++waiting_;
    }
  }

  const char* name_;
  const Work& thread_;
  unsigned count_;
  unsigned next_ = 0;
  bool backwards_ = backwards();
  context::fiber scheduler_;
  std::vector<Meeting> meetings_ = meetings_of(count_);  // of the warps, then of the block
  Meeting* waits_for_ = nullptr;
  unsigned waiting_ = 0;
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
  current_block->wait_for_block();
}

unsigned vote_in_warp(bool yes) {
  return current_block->vote_in_warp(yes);
}

void launch(const char* name, dim3 grid, dim3 block, cudaStream_t stream, Work thread) {
  const unsigned threads = block.x * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || threads == 0 || threads > 1024) {
    refuse(cudaErrorInvalidConfiguration, name);
    return;
  }
  submit(stream, name, [=, thread = std::move(thread)] { execute(name, grid, block, thread); });
}

}  // namespace emulator
