#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "tests/cuda_emulator/emulator_private.h"

namespace emulator {

/// The moment at which a stream came to a recorded event.
class Moment {
 public:
  void come();
  void await();
  bool has_come() const;
  std::chrono::steady_clock::time_point time() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool come_ = false;
  std::chrono::steady_clock::time_point time_;
};

/// Streams must not keep step with each other.
unsigned seed_of_next_stream();

}  // namespace emulator

/// A queue and the thread that works it off.
struct CUstream_st {
 public:
  CUstream_st(unsigned its_flags, int its_priority) : flags(its_flags), priority(its_priority) {}

  void push(emulator::Work work);
  void drain();
  /// What is in the queue is still done; the thread and this object then remain, unused.
  void retire();

  const unsigned flags;
  const int priority;
  const int gpu = emulator::current_gpu();

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<emulator::Work> queue_;
  bool busy_ = false;
  bool retired_ = false;
  std::mt19937 random_{emulator::seed_of_next_stream()};
  std::thread thread_{[this] { serve(); }};
};

struct CUevent_st {
  bool timed = true;
  std::mutex mutex;
  std::shared_ptr<emulator::Moment> moment;  ///< null before the first record
};
