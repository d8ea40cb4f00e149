#include "core/cuda/kernel.cuh"

namespace brigade {
namespace {

/// y[r, c] = b[c]   y: [n / out, out]
template <class T>
__global__ void broadcast_rows_kernel(std::int64_t n, std::int64_t out, const T* b, T* y) {
  for (std::int64_t i = cuda::first_index(); i < n; i += cuda::index_stride()) {
    y[i] = b[i % out];
  }
}

}  // namespace

/// The bias goes into y first and the product is added to it (beta = 1). That writes and reads y
/// once more than a fused epilogue would; y is [N, out] and W, which has to be read anyway, is
/// [out, in].
template <class T>
void CudaKernels::linear(Stream& s, std::int64_t batch, std::int64_t in, std::int64_t out,
                         const T* x, const T* w, const T* b, Activation activation, T* y) {
  if (b != nullptr) {
    cuda::launch(s, broadcast_rows_kernel<T>, batch * out, out, b, y);
  }
  gemm<T>(s, {.transpose_a = false,
              .transpose_b = true,
              .m = batch,
              .n = out,
              .k = in,
              .a = x,
              .b = w,
              .c = y,
              .scale = {.alpha = 1.0, .beta = b != nullptr ? 1.0 : 0.0}});
  if (activation == Activation::relu) {
    relu(s, batch * out, y, y);
  }
}

template void CudaKernels::linear(Stream&, std::int64_t, std::int64_t, std::int64_t, const float*,
                                  const float*, const float*, Activation, float*);
template void CudaKernels::linear(Stream&, std::int64_t, std::int64_t, std::int64_t, const double*,
                                  const double*, const double*, Activation, double*);

}  // namespace brigade
