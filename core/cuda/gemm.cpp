#include <map>
#include <memory>
#include <type_traits>
#include <utility>

#include "core/cuda/launch.h"
#include "core/cuda/products.h"
#include "core/kernels.h"

namespace brigade {
namespace {

template <class T>
constexpr cudaDataType_t kCudaType = std::is_same_v<T, double>  ? CUDA_R_64F
                                     : std::is_same_v<T, float> ? CUDA_R_32F
                                                                : CUDA_R_16BF;

struct DestroyBlas {
  void operator()(cublasHandle_t handle) const { static_cast<void>(cublasDestroy(handle)); }
};
using BlasHandle = std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, DestroyBlas>;

/// One handle per thread and stream. Two threads must not use a handle at once. A handle that
/// served several streams would choose its workspace, and with it the order of additions, by what
/// runs beside it (cuBLAS manual, "Results reproducibility"). A communication hook must compute the
/// same bits on every rank.
cublasHandle_t blas_handle(const Stream& s) {
  thread_local std::map<std::pair<int, cudaStream_t>, BlasHandle> handles;
  cudaStream_t stream = cuda::stream_of(s);
  BlasHandle& handle = handles[{s.device().index, stream}];
  if (!handle) {
    cublasHandle_t made = nullptr;
    CUBLAS_CHECK(cublasCreate(&made));
    BlasHandle owner(made);
    CUBLAS_CHECK(cublasSetStream(made, stream));
    CUBLAS_CHECK(cublasSetWorkspace(made, cuda::blas_workspace(s), cuda::kBlasWorkspace));
    handle = std::move(owner);
  }
  return handle.get();
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
  CUBLAS_CHECK(cublasGemmEx_64(handle, op_b, op_a, n, m, k, &alpha, b, kCudaType<F>, row_b, a,
                               kCudaType<F>, row_a, &beta, c, kCudaType<T>, n,
                               cuda::compute_type(kCudaType<F>), CUBLAS_GEMM_DEFAULT));
}

template decltype(CudaProducts<float>::gemm<float>) CudaProducts<float>::gemm<float>;
template decltype(CudaProducts<float>::gemm<BFloat16>) CudaProducts<float>::gemm<BFloat16>;
template decltype(CudaProducts<double>::gemm<double>) CudaProducts<double>::gemm<double>;

}  // namespace brigade
