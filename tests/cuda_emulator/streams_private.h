#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

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

/// Numbers of nodes of a graph.
using Nodes = std::set<std::size_t>;

struct Node {
  const char* name;
  Work work;
  Nodes after;
  cudaEvent_t records;  ///< an external event, or null
};

/// Streams must not keep step with each other.
unsigned seed_of_next_stream();

/// Guards who captures what. Never held while work is executed.
std::recursive_mutex& capture_mutex();

}  // namespace emulator

/// A capture, and the graph that comes of it.
struct CUgraph_st {
  std::vector<emulator::Node> nodes;
  cudaStream_t origin = nullptr;
  std::set<cudaStream_t> streams;
  std::thread::id thread;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  const char* invalid_because = nullptr;
};

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
  CUgraph_st* capture = nullptr;  ///< guarded by capture_mutex()
  emulator::Nodes last;           ///< of the capture: what comes next comes after these

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
  std::shared_ptr<emulator::Moment> moment;  ///< none before the first record
  CUgraph_st* graph = nullptr;               ///< recorded in a capture: a place in a graph
  emulator::Nodes nodes;
};
