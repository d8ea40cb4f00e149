#include "core/cuda/cuda_graph.h"

#include "core/cuda/launch.h"
#include "core/runtime/context.h"

namespace brigade {
namespace {

class CudaGraph final : public Recording {
 public:
  CudaGraph(Stream& stream, const std::function<void()>& work) : stream_(stream) {
    cudaStream_t captured = cuda::stream_of(stream);
    // Thread-local: what other threads do meanwhile (a data loader, NCCL's proxy) is theirs alone.
    CUDA_CHECK(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal));
    cudaGraph_t graph = nullptr;
    try {
      work();
    } catch (...) {
      // Ends the capture, which is invalid if `work` has failed for something forbidden in it.
      static_cast<void>(cudaStreamEndCapture(captured, &graph));
      static_cast<void>(cudaGraphDestroy(graph));
      static_cast<void>(cudaGetLastError());
      throw;
    }
    CUDA_CHECK(cudaStreamEndCapture(captured, &graph));
    // Each kernel with the priority of its stream: communication comes before computation.
    const cudaError_t made =
        cudaGraphInstantiate(&executable_, graph, cudaGraphInstantiateFlagUseNodePriority);
    static_cast<void>(cudaGraphDestroy(graph));  // the executable one is complete by itself
    CUDA_CHECK(made);
    try {
      replay();
    } catch (...) {
      static_cast<void>(cudaGraphExecDestroy(executable_));
      throw;
    }
  }
  ~CudaGraph() override { static_cast<void>(cudaGraphExecDestroy(executable_)); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  void replay() override { CUDA_CHECK(cudaGraphLaunch(executable_, cuda::stream_of(stream_))); }

 private:
  Stream& stream_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

std::unique_ptr<Recording> record_cuda_graph(Device device, const std::function<void()>& work) {
  return std::make_unique<CudaGraph>(compute_stream(device), work);
}

}  // namespace brigade
