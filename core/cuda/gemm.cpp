#include <map>
#include <type_traits>
#include <utility>

#include "core/cuda/launch.h"
#include "core/cuda/products.h"
#include "core/kernels.h"

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
    return handle;
  }

 private:
  std::map<std::pair<int, cudaStream_t>, cublasHandle_t> handles_;
};

template <class T>
constexpr cudaDataType_t kCudaType = std::is_same_v<T, double>  ? CUDA_R_64F
                                     : std::is_same_v<T, float> ? CUDA_R_32F
                                                                : CUDA_R_16BF;

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
  CUBLAS_CHECK(cublasGemmEx_64(handle, op_b, op_a, n, m, k, &alpha, b, kCudaType<F>, row_b, a,
                               kCudaType<F>, row_a, &beta, c, kCudaType<T>, n,
                               cuda::compute_type(kCudaType<F>), CUBLAS_GEMM_DEFAULT));
}

template decltype(CudaProducts<float>::gemm<float>) CudaProducts<float>::gemm<float>;
template decltype(CudaProducts<float>::gemm<BFloat16>) CudaProducts<float>::gemm<BFloat16>;
template decltype(CudaProducts<double>::gemm<double>) CudaProducts<double>::gemm<double>;

}  // namespace brigade
