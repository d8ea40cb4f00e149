#pragma once

#include "core/cuda/kernel.cuh"
#include "core/tensor.h"

/// Reductions of [outer, n, inner] over n, for sums, maxima, losses and norms. The order of the
/// joins depends on the shape alone: the same bits every time. Atomics would be as fast and give
/// other bits every time.
namespace brigade::cuda {

/// A block owns blockDim.x outputs at a time; blockDim.y threads of each walk n in turn and join
/// their totals in a fixed tree. Block y of the grid takes the y-th `share` of n.
template <class Total, class Read, class Store>
__global__ void reduce_kernel(ReduceShape shape, std::int64_t share, Total none, Read read,
                              Store store) {
  __shared__ Total totals[kBlock];
  const std::int64_t outputs = shape.outputs();
  const std::int64_t begin = blockIdx.y * share;
  const std::int64_t end = begin + share < shape.n ? begin + share : shape.n;
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * blockDim.x; base < outputs;
       base += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const std::int64_t output = base + threadIdx.x;
    Total total = none;
    if (output < outputs) {
      const std::int64_t first =
          output / shape.inner * shape.n * shape.inner + output % shape.inner;
      for (std::int64_t j = begin + threadIdx.y; j < end; j += blockDim.y) {
        total.join(read(first + j * shape.inner, j));
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

/// [outputs, walkers] of a block. Neighbouring threads read neighbouring numbers: those of other
/// outputs, or of n if inner = 1.
inline dim3 threads_for(ReduceShape shape) {
  unsigned walkers = 8;
  if (shape.inner == 1) {
    for (walkers = 1; walkers < kBlock && walkers < shape.n;) {
      walkers *= 2;
    }
  }
  return {kBlock / walkers, walkers};
}

/// One pass that cuts n into `shares`. Output o of share k is stored as number k outputs + o.
template <class Total, class Read, class Store>
void reduce_shares(Stream& s, ReduceShape shape, std::int64_t shares, Total none, Read read,
                   Store store) {
  const dim3 threads = threads_for(shape);
  const std::int64_t blocks = (shape.outputs() + threads.x - 1) / threads.x;
  const dim3 grid(static_cast<unsigned>(std::min(blocks, kMaxBlocks)),
                  static_cast<unsigned>(shares));
  const std::int64_t share = (shape.n + shares - 1) / shares;
  reduce_kernel<<<grid, threads, 0, stream_of(s)>>>(shape, share, none, read, store);
  CUDA_CHECK(cudaGetLastError());
}

/// Joins read(i, j), for the element i = [o, j, ·] of the shape, over j < n, starting from `none`,
/// and hands each result to store(output, total). Both are __device__ lambdas.
template <class Total, class Read, class Store>
void reduce(Stream& s, ReduceShape shape, Total none, Read read, Store store) {
  constexpr std::int64_t kEnoughBlocks = 512;
  constexpr std::int64_t kLeastShare = 8 * kBlock;
  const std::int64_t outputs = shape.outputs();
  if (outputs == 0) {
    return;
  }
  // Few outputs would keep few blocks busy: n is cut into shares, which a second pass joins.
  const std::int64_t blocks = (outputs + threads_for(shape).x - 1) / threads_for(shape).x;
  const std::int64_t shares = std::min(kEnoughBlocks / blocks, shape.n / kLeastShare);
  if (shares <= 1) {
    reduce_shares(s, shape, 1, none, read, store);
    return;
  }
  // The memory goes back to the allocator while the kernels still use it, which is safe for the
  // reason given in core/runtime/allocator.h: whoever gets it next comes later on the same stream.
  // So not for operators under a UseStream.
  const std::int64_t bytes = shares * outputs * static_cast<std::int64_t>(sizeof(Total));
  const Tensor partials = Tensor::empty({bytes}, DType::u8, s.device());
  auto* const data = reinterpret_cast<Total*>(partials.bytes());
  reduce_shares(s, shape, shares, none, read,
                [=] __device__(std::int64_t at, Total total) { data[at] = total; });
  reduce_shares(
      s, {.n = shares, .inner = outputs}, 1, none,
      [=] __device__(std::int64_t i, std::int64_t /*j*/) { return data[i]; }, store);
}

/// A sum in double.
struct Sum {
  double value;
  __device__ void join(Sum other) { value += other.value; }
};

/// y[o, i] = Σ_j value(i, j), stored as `scale` says. `value` as `read` of reduce().
template <class T, class Value>
void sum_over(Stream& s, ReduceShape shape, Value value, Scale scale, T* y) {
  reduce(
      s, shape, Sum{0.0},
      [=] __device__(std::int64_t i, std::int64_t j) {
        return Sum{static_cast<double>(value(i, j))};
      },
      [=] __device__(std::int64_t output, Sum total) {
        const double sum = scale.alpha * total.value;
        y[output] = static_cast<T>(
            scale.beta == 0.0 ? sum : sum + scale.beta * static_cast<double>(y[output]));
      });
}

/// Makes a mean of a sum of n numbers; 0 for n = 0.
inline Scale mean_of(std::int64_t n) {
  return {.alpha = n > 0 ? 1.0 / static_cast<double>(n) : 0.0, .beta = 0.0};
}

}  // namespace brigade::cuda
