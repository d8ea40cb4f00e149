#include <atomic>
#include <map>
#include <utility>

#include "tests/cuda_emulator/streams_private.h"

namespace emulator {
namespace {

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

std::set<CUgraph_st*>& captures() {
  static auto* all = new std::set<CUgraph_st*>;
  return *all;
}

/// What must be done before `last`, and these themselves.
Nodes reached_from(const std::vector<Node>& nodes, const Nodes& last) {
  Nodes reached;
  std::vector<std::size_t> open(last.begin(), last.end());
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (reached.insert(node).second) {
      open.insert(open.end(), nodes[node].after.begin(), nodes[node].after.end());
    }
  }
  return reached;
}

/// Of one launch: when the nodes that record an event were executed.
using Moments = std::map<std::size_t, std::shared_ptr<Moment>>;

/// In any order that the edges allow.
void execute(const std::vector<Node>& nodes, const Moments& moments, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::size_t> missing(nodes.size());
  std::vector<std::vector<std::size_t>> next(nodes.size());
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    missing[i] = nodes[i].after.size();
    for (const std::size_t before : nodes[i].after) {
      next[before].push_back(i);
    }
    if (missing[i] == 0) {
      ready.push_back(i);
    }
  }
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const std::size_t node = ready.back();
    ready.pop_back();
    nodes[node].work();
    if (const auto moment = moments.find(node); moment != moments.end()) {
      moment->second->come();
    }
    for (const std::size_t after : next[node]) {
      if (--missing[after] == 0) {
        ready.push_back(after);
      }
    }
  }
}

}  // namespace

std::recursive_mutex& capture_mutex() {
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

bool forbidden_in_capture(const char* call) {
  const std::lock_guard lock(capture_mutex());
  bool forbidden = false;
  for (CUgraph_st* graph : captures()) {
    const bool mine = graph->thread == std::this_thread::get_id() &&
                      thread_mode != cudaStreamCaptureModeRelaxed &&
                      graph->mode != cudaStreamCaptureModeRelaxed;
    const bool everybodys =
        thread_mode == cudaStreamCaptureModeGlobal && graph->mode == cudaStreamCaptureModeGlobal;
    if (mine || everybodys) {
      graph->invalid_because = call;
      forbidden = true;
    }
  }
  return forbidden;
}

}  // namespace emulator

using emulator::refuse;

struct CUgraphExec_st {
  std::vector<emulator::Node> nodes;
};

extern "C" {

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, emulator::thread_mode);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(emulator::capture_mutex());
  *status =
      stream->capture != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(emulator::capture_mutex());
  if (stream->capture != nullptr) {
    return refuse(cudaErrorIllegalState, "begins a capture inside a capture");
  }
  auto* graph = new CUgraph_st;
  graph->origin = stream;
  graph->streams = {stream};
  graph->thread = std::this_thread::get_id();
  graph->mode = mode;
  stream->capture = graph;
  stream->last.clear();
  emulator::captures().insert(graph);
  return cudaSuccess;
}

/// In a capture: the event's nodes come before what follows on `stream`, which may be captured from
/// here on because of it.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if (flags != cudaEventWaitDefault) {
    return refuse(cudaErrorNotSupported, "cudaStreamWaitEvent with flags is not emulated");
  }
  const std::lock_guard lock(emulator::capture_mutex());
  const std::lock_guard event_lock(event->mutex);
  if (CUgraph_st* graph = event->graph) {
    if (!emulator::captures().contains(graph)) {
      return refuse(cudaErrorInvalidValue, "waits for an event of a capture that has ended");
    }
    if (stream->capture != nullptr && stream->capture != graph) {
      graph->invalid_because = stream->capture->invalid_because = "another capture";
      return refuse(cudaErrorStreamCaptureMerge, "two captures meet");
    }
    if (stream->capture == nullptr) {
      stream->capture = graph;
      stream->last.clear();
      graph->streams.insert(stream);
    }
    stream->last.insert(event->nodes.begin(), event->nodes.end());
    return cudaSuccess;
  }
  if (stream->capture != nullptr) {
    stream->capture->invalid_because = "a wait for an event from outside";
    return refuse(cudaErrorStreamCaptureIsolation, "a captured stream waits for another");
  }
  if (event->moment != nullptr) {
    emulator::submit(stream, "wait", [moment = event->moment] { moment->await(); });
  }
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(emulator::capture_mutex());
  *graph = nullptr;
  CUgraph_st* capture = stream->capture;
  if (capture == nullptr || capture->origin != stream) {
    return refuse(cudaErrorStreamCaptureUnmatched, "ends a capture that did not begin here");
  }
  if (capture->thread != std::this_thread::get_id()) {
    return refuse(cudaErrorStreamCaptureWrongThread, "ends another thread's capture");
  }
  const emulator::Nodes joined = emulator::reached_from(capture->nodes, stream->last);
  for (cudaStream_t captured : capture->streams) {
    captured->capture = nullptr;
    captured->last.clear();
  }
  emulator::captures().erase(capture);  // itself it stays: events may still point to it
  if (capture->invalid_because != nullptr) {
    return refuse(cudaErrorStreamCaptureInvalidated, capture->invalid_because);
  }
  if (joined.size() < capture->nodes.size()) {
    return refuse(cudaErrorStreamCaptureUnjoined, "work of another stream was not joined");
  }
  *graph = capture;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags) {
  if (flags != cudaGraphInstantiateFlagUseNodePriority) {
    return refuse(cudaErrorInvalidValue, "a graph whose kernels lose their streams' priorities");
  }
  *executable = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  static std::atomic<unsigned> launches = 0;
  static const auto seed = static_cast<unsigned>(emulator::setting("EMULATOR_SEED", 1));
  emulator::Moments moments;
  for (std::size_t i = 0; i < executable->nodes.size(); ++i) {
    if (cudaEvent_t event = executable->nodes[i].records) {
      const std::lock_guard lock(event->mutex);
      event->moment = moments[i] = std::make_shared<emulator::Moment>();
    }
  }
  const unsigned order = seed + launches++ * 7919;
  emulator::submit(stream, "graph", [nodes = executable->nodes, moments, order] {
    emulator::execute(nodes, moments, order);
  });
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  if (graph != nullptr) {
    graph->nodes.clear();
  }
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}

}  // extern "C"
