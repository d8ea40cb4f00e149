#include "core/cuda/reduce.cuh"

namespace brigade {
namespace {

using cuda::first_index;
using cuda::index_stride;
using cuda::kBlock;
using cuda::launch;
using cuda::put;
using cuda::stream_of;
using cuda::TypedScale;

struct Sum {
  double value;

  static __device__ Sum none() { return {0.0}; }
  static __device__ Sum of(double x, std::int64_t /*index*/) { return {x}; }
  __device__ void join(Sum other) { value += other.value; }
};

/// The largest number so far and its index, -1 before the first. NaN is larger than any number; of
/// equal ones the first counts.
template <class T>
struct Max {
  T value;
  std::int64_t index;

  static __device__ Max none() { return {T{0}, -1}; }
  static __device__ Max of(T x, std::int64_t index) { return {x, index}; }
  __device__ void join(Max other) {
    const bool nan = value != value;
    const bool other_nan = other.value != other.value;
    const bool larger = other.value > value || (other_nan && !nan);
    const bool equal = other.value == value || (other_nan && nan);
    if (other.index >= 0 && (index < 0 || larger || (equal && other.index < index))) {
      *this = other;
    }
  }
};

// Where a kernel puts the total of an output.

template <class T>
struct StoreSum {
  using Total = Sum;
  Scale scale;
  T* y;
  __device__ void operator()(std::int64_t output, Sum total) const {
    const double sum = scale.alpha * total.value;
    y[output] =
        static_cast<T>(scale.beta == 0.0 ? sum : sum + scale.beta * static_cast<double>(y[output]));
  }
};

template <class T>
struct StoreMax {
  using Total = Max<T>;
  T* y;
  std::int64_t* index;
  __device__ void operator()(std::int64_t output, Max<T> total) const {
    y[output] = total.value;
    index[output] = total.index;
  }
};

template <class AnyTotal>
struct StorePartial {
  using Total = AnyTotal;
  Total* partials;
  __device__ void operator()(std::int64_t output, Total total) const { partials[output] = total; }
};

/// A block owns blockDim.x outputs at a time; blockDim.y threads of each walk n in turn and join
/// their totals in a fixed tree. Block y of the grid takes the y-th `share` of n.
template <class T, class Store>
__global__ void reduce_kernel(ReduceShape shape, std::int64_t share, const T* x, Store store) {
  using Total = typename Store::Total;
  __shared__ Total totals[kBlock];
  const std::int64_t outputs = shape.outputs();
  const std::int64_t begin = blockIdx.y * share;
  const std::int64_t end = begin + share < shape.n ? begin + share : shape.n;
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * blockDim.x; base < outputs;
       base += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const std::int64_t output = base + threadIdx.x;
    Total total = Total::none();
    if (output < outputs) {
      const T* first = x + output / shape.inner * shape.n * shape.inner + output % shape.inner;
      for (std::int64_t j = begin + threadIdx.y; j < end; j += blockDim.y) {
        total.join(Total::of(first[j * shape.inner], j));
      }
    }
    totals[thread] = total;
    __syncthreads();
    for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
      if (threadIdx.y < half) {
        totals[thread].join(totals[thread + half * blockDim.x]);
      }
      __syncthreads();
    }
    if (threadIdx.y == 0 && output < outputs) {
      store(blockIdx.y * outputs + output, totals[thread]);
    }
    __syncthreads();  // before the next outputs overwrite `totals`
  }
}

/// The second pass: joins the shares of each output.   partials: [shares, outputs]
template <class Store>
__global__ void join_kernel(std::int64_t outputs, std::int64_t shares,
                            const typename Store::Total* partials, Store store) {
  for (std::int64_t output = first_index(); output < outputs; output += index_stride()) {
    typename Store::Total total = partials[output];
    for (std::int64_t share = 1; share < shares; ++share) {
      total.join(partials[share * outputs + output]);
    }
    store(output, total);
  }
}

/// Each total is joined in an order that depends on the shape alone: the same bits every time.
template <class T, class Store>
void reduce(Stream& s, ReduceShape shape, const T* x, Store store) {
  constexpr std::int64_t kEnoughBlocks = 512;
  constexpr std::int64_t kLeastShare = 8 * kBlock;
  if (shape.outputs() == 0) {
    return;
  }
  // Neighbouring threads read neighbouring numbers: those of other outputs, or of n if inner = 1.
  unsigned walkers = 8;
  if (shape.inner == 1) {
    for (walkers = 1; walkers < kBlock && walkers < shape.n;) {
      walkers *= 2;
    }
  }
  const dim3 threads(kBlock / walkers, walkers);
  const std::int64_t blocks = (shape.outputs() + threads.x - 1) / threads.x;
  // Few outputs would keep few blocks busy: n is cut into shares, which a second pass joins.
  const std::int64_t wanted = std::min(kEnoughBlocks / blocks, shape.n / kLeastShare);
  const std::int64_t shares = std::max<std::int64_t>(wanted, 1);
  const std::int64_t share = (shape.n + shares - 1) / shares;
  const dim3 grid(static_cast<unsigned>(std::min(blocks, cuda::kMaxBlocks)),
                  static_cast<unsigned>(shares));
  if (shares == 1) {
    reduce_kernel<<<grid, threads, 0, stream_of(s)>>>(shape, share, x, store);
    CUDA_CHECK(cudaGetLastError());
    return;
  }
  using Total = typename Store::Total;
  const cuda::Partials<Total> partials(s, shares * shape.outputs());
  const StorePartial<Total> store_partial{partials.data()};
  reduce_kernel<<<grid, threads, 0, stream_of(s)>>>(shape, share, x, store_partial);
  CUDA_CHECK(cudaGetLastError());
  launch(s, join_kernel<Store>, shape.outputs(), shares, partials.data(), store);
}

template <class T>
__global__ void reduce_backward_kernel(std::int64_t n, ReduceShape shape, const T* dy,
                                       const std::int64_t* index, TypedScale<T> scale, T* dx) {
  for (std::int64_t i = first_index(); i < n; i += index_stride()) {
    const std::int64_t row = i / shape.inner;
    const std::int64_t output = row / shape.n * shape.inner + i % shape.inner;
    const bool chosen = index == nullptr || index[output] == row % shape.n;
    put(chosen ? dy[output] : T{0}, scale, &dx[i]);
  }
}

}  // namespace

template <class T>
void CudaKernels::reduce_sum(Stream& s, ReduceShape shape, const T* x, Scale scale, T* y) {
  reduce(s, shape, x, StoreSum<T>{scale, y});
}

template <class T>
void CudaKernels::reduce_max(Stream& s, ReduceShape shape, const T* x, T* y, std::int64_t* index) {
  reduce(s, shape, x, StoreMax<T>{y, index});
}

template <class T>
void CudaKernels::reduce_backward(Stream& s, ReduceShape shape, const T* dy,
                                  const std::int64_t* index, Scale scale, T* dx) {
  launch(s, reduce_backward_kernel<T>, shape.n * shape.outputs(), shape, dy, index,
         TypedScale<T>(scale), dx);
}

/// Two passes: the sums keep one block per 32 columns busy, too few to mask the whole matrix as
/// well.
template <class T>
void CudaKernels::relu_bias_backward(Stream& s, std::int64_t rows, std::int64_t cols, const T* dy,
                                     const T* y, T* dz, T* db) {
  unary_backward(s, UnaryOp::relu, rows * cols, dy, y, {}, dz);
  reduce_sum(s, {.outer = 1, .n = rows, .inner = cols}, dz, {}, db);
}

template void CudaKernels::reduce_sum(Stream&, ReduceShape, const float*, Scale, float*);
template void CudaKernels::reduce_sum(Stream&, ReduceShape, const double*, Scale, double*);
template void CudaKernels::reduce_max(Stream&, ReduceShape, const float*, float*, std::int64_t*);
template void CudaKernels::reduce_max(Stream&, ReduceShape, const double*, double*, std::int64_t*);
template void CudaKernels::reduce_backward(Stream&, ReduceShape, const float*, const std::int64_t*,
                                           Scale, float*);
template void CudaKernels::reduce_backward(Stream&, ReduceShape, const double*, const std::int64_t*,
                                           Scale, double*);
template void CudaKernels::relu_bias_backward(Stream&, std::int64_t, std::int64_t, const float*,
                                              const float*, float*, float*);
template void CudaKernels::relu_bias_backward(Stream&, std::int64_t, std::int64_t, const double*,
                                              const double*, double*, double*);

}  // namespace brigade
