#include "core/cuda/kernel.cuh"
#include "core/cuda/philox.cuh"

namespace brigade {
namespace {

/// One thread computes one Philox block and stores the four elements that it decides.
template <class T>
__global__ void dropout_kernel(std::int64_t blocks, std::int64_t n, RandomStream stream,
                               std::uint32_t threshold, const T* x, cuda::TypedScale<T> scale,
                               T* y) {
  for (std::int64_t block = cuda::first_index(); block < blocks; block += cuda::index_stride()) {
    const cuda::Philox::ctr_type words = cuda::philox_block(stream.seed, stream.sequence, block);
    for (int word = 0; word < 4 && 4 * block + word < n; ++word) {
      const std::int64_t i = 4 * block + word;
      const bool dropped = words[static_cast<unsigned>(word)] >> 8U < threshold;
      cuda::put(dropped ? T{0} : x[i], scale, &y[i]);
    }
  }
}

}  // namespace

template <class T>
void CudaKernels::dropout(Stream& s, std::int64_t n, DropoutArgs args, const T* x, Scale scale,
                          T* y) {
  const cuda::TypedScale<T> kept({.alpha = scale.alpha / (1.0 - args.p), .beta = scale.beta});
  cuda::launch(s, dropout_kernel<T>, (n + 3) / 4, n, args.stream, args.threshold(), x, kept, y);
}

template void CudaKernels::dropout(Stream&, std::int64_t, DropoutArgs, const float*, Scale, float*);
template void CudaKernels::dropout(Stream&, std::int64_t, DropoutArgs, const double*, Scale,
                                   double*);

}  // namespace brigade
