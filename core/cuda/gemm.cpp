#include <map>
#include <type_traits>
#include <utility>

#include "core/cuda/blas_workspace.h"
#include "core/cuda/launch.h"
#include "core/kernels.h"
#include "core/runtime/context.h"

namespace brigade {
namespace {

/// The cuBLAS handles of one thread, one per stream. A handle must not be used by two threads at
/// once. It could serve several streams, but would choose its workspace, and with it the order of
/// additions, by what runs beside it (cuBLAS manual, "Results reproducibility"); what a
/// communication hook computes must have the same bits on every rank.
class BlasHandles {
 public:
  BlasHandles() = default;
  BlasHandles(const BlasHandles&) = delete;
  BlasHandles& operator=(const BlasHandles&) = delete;
  ~BlasHandles() {
    for (const auto& [place, handle] : handles_) {
      static_cast<void>(cublasDestroy(handle));
    }
  }

  cublasHandle_t on(const Stream& s) {
    cudaStream_t stream = cuda::stream_of(s);
    cublasHandle_t& handle = handles_[{s.device().index, stream}];
    if (handle == nullptr) {
      CUBLAS_CHECK(cublasCreate(&handle));
      CUBLAS_CHECK(cublasSetStream(handle, stream));
      CUBLAS_CHECK(cublasSetWorkspace(handle, cuda::blas_workspace(s), cuda::kBlasWorkspace));
    }
    const bool tf32 = Context::current().tf32();
    CUBLAS_CHECK(
        cublasSetMathMode(handle, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH));
    return handle;
  }

 private:
  std::map<std::pair<int, cudaStream_t>, cublasHandle_t> handles_;
};

cublasHandle_t blas_handle(const Stream& s) {
  thread_local BlasHandles handles;
  return handles.on(s);
}

}  // namespace

/// cuBLAS is column-major. A row-major matrix read as column-major is its transpose, so it is asked
/// for Cᵀ = op(B)ᵀ op(A)ᵀ: the operands swapped, their transposition flags kept.
template <class T>
template <class F>
void CudaProducts<T>::gemm(Stream& s, const GemmArgs<T, F>& args) {
  const auto& [transpose_a, transpose_b, m, n, k, a, b, c, scale] = args;
  if (m == 0 || n == 0) {
    return;
  }
  if (k == 0) {  // an empty sum; cuBLAS refuses its leading dimensions
    if (scale.beta == 0.0) {
      CudaElementwise<T>::fill(s, m * n, T{0}, c);
    } else {
      CudaElementwise<T>::axpby(s, m * n, c, {.alpha = scale.beta, .beta = 0.0}, c);
    }
    return;
  }
  const cublasOperation_t op_a = transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t op_b = transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const std::int64_t row_a = transpose_a ? m : k;
  const std::int64_t row_b = transpose_b ? k : n;
  const T alpha = static_cast<T>(scale.alpha);
  const T beta = static_cast<T>(scale.beta);
  cublasHandle_t handle = blas_handle(s);
  if constexpr (std::is_same_v<F, BFloat16>) {
    CUBLAS_CHECK(cublasGemmEx_64(handle, op_b, op_a, n, m, k, &alpha, b, CUDA_R_16BF, row_b, a,
                                 CUDA_R_16BF, row_a, &beta, c, CUDA_R_32F, n, CUBLAS_COMPUTE_32F,
                                 CUBLAS_GEMM_DEFAULT));
  } else if constexpr (std::is_same_v<T, float>) {
    CUBLAS_CHECK(
        cublasSgemm_64(handle, op_b, op_a, n, m, k, &alpha, b, row_b, a, row_a, &beta, c, n));
  } else {
    CUBLAS_CHECK(
        cublasDgemm_64(handle, op_b, op_a, n, m, k, &alpha, b, row_b, a, row_a, &beta, c, n));
  }
}

template decltype(CudaProducts<float>::gemm<float>) CudaProducts<float>::gemm<float>;
template decltype(CudaProducts<float>::gemm<BFloat16>) CudaProducts<float>::gemm<BFloat16>;
template decltype(CudaProducts<double>::gemm<double>) CudaProducts<double>::gemm<double>;

}  // namespace brigade
