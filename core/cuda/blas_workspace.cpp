#include "core/cuda/blas_workspace.h"

#include <map>
#include <utility>

#include "core/cuda/launch.h"
#include "core/tensor.h"

namespace brigade::cuda {

void* blas_workspace(const Stream& s) {
  thread_local std::map<std::pair<int, cudaStream_t>, Tensor> workspaces;
  Tensor& workspace = workspaces[{s.device().index, stream_of(s)}];
  if (!workspace.defined()) {
    workspace = Tensor::empty({static_cast<std::int64_t>(kBlasWorkspace / sizeof(float))},
                              DType::f32, s.device());
  }
  return workspace.bytes();
}

}  // namespace brigade::cuda
