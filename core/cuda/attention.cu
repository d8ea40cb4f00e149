#include "core/cuda/kernel.cuh"
#include "core/cuda/random.cuh"

// The equations are those of core/cpu/attention.cpp. Each block computes one row of a result at a
// time, walking the other sequence positions in tiles of one position per thread: a thread first
// computes what belongs to its position, then the threads turn to the columns of the result and
// sum over the tile. No atomics, hence the same bits every time.
namespace brigade {
namespace {

using cuda::kBlock;

/// Where the numbers of one head of one sequence are.
template <class T>
struct Head {
  std::int64_t width, stride;      // of a row, between rows of qkv
  std::int64_t length, first_row;  // of the weights: all heads together, row by row
  RandomStream dropout_stream;
  std::uint32_t threshold;  // of DropoutArgs; 0 without dropout
  T factor;                 // 1 / (1 - dropout.p)
  const T *q, *k, *v;
  const T *y, *dy;  // stride / 3 between rows
  T* log_sums;

  __device__ Head(const AttentionArgs<T>& args, std::int64_t index, const T* all_dy)
      : width(args.width),
        stride(3 * args.heads * args.width),
        length(args.length),
        first_row(index * args.length),
        dropout_stream(args.dropout.stream),
        threshold(args.dropout.threshold()),
        factor(static_cast<T>(1.0 / (1.0 - args.dropout.p))) {
    const std::int64_t sequence = index / args.heads;
    const std::int64_t column = index % args.heads * width;
    q = args.qkv + sequence * args.length * stride + column;
    k = q + stride / 3;
    v = k + stride / 3;
    const std::int64_t row = sequence * args.length * (stride / 3) + column;
    y = args.y + row;
    dy = all_dy != nullptr ? all_dy + row : nullptr;
    log_sums = args.log_sums + index * args.length;
  }

  __device__ T dot(const T* a, const T* b) const {
    T sum{0};
    for (std::int64_t i = 0; i < width; ++i) {
      sum += a[i] * b[i];
    }
    return sum;
  }
  __device__ T score(std::int64_t query, std::int64_t key, T scale) const {
    return scale * dot(q + query * stride, k + key * stride);
  }
  /// m of one pair: 0 if it is dropped.
  __device__ T dropout_factor(std::int64_t query, std::int64_t key) const {
    if (threshold == 0) {
      return T{1};
    }
    const auto at = static_cast<std::uint64_t>((first_row + query) * length + key);
    const std::uint32_t word = cuda::random_block(dropout_stream, at / 4)[at % 4];
    return word >> 8U < threshold ? T{0} : factor;
  }
  /// ds and p m of one pair.
  __device__ void backward(std::int64_t query, std::int64_t key, T scale, T* p, T* ds) const {
    const T* row = dy + query * (stride / 3);
    const T delta = dot(row, y + query * (stride / 3));
    const T m = dropout_factor(query, key);
    const T probability = exp(score(query, key, scale) - log_sums[query]);
    *p = m * probability;
    *ds = probability * (m * dot(row, v + key * stride) - delta) * scale;
  }
};

template <class T>
__device__ T block_max(T value) {
  return cuda::block_join(value, [](T a, T b) { return a > b ? a : b; });
}

/// One block per query.
template <class T>
__global__ void forward_kernel(AttentionArgs<T> args, T scale) {
  __shared__ T weights[kBlock];
  const std::int64_t rows = args.batch * args.heads * args.length;
  for (std::int64_t index = blockIdx.x; index < rows; index += gridDim.x) {
    const Head<T> head(args, index / args.length, nullptr);
    const std::int64_t query = index % args.length;
    T largest = -cuda::kInfinity<T>;
    T sum{0};
    T y{0};  // column threadIdx.x
    for (std::int64_t first = 0; first <= query; first += kBlock) {
      const std::int64_t key = first + threadIdx.x;
      const std::int64_t keys = query + 1 - first < kBlock ? query + 1 - first : kBlock;
      const T score = key <= query ? head.score(query, key, scale) : -cuda::kInfinity<T>;
      const T before = largest;
      const T of_tile = block_max(score);
      largest = before > of_tile ? before : of_tile;
      const T weight = exp(score - largest);
      weights[threadIdx.x] = key <= query ? head.dropout_factor(query, key) * weight : T{0};
      sum = sum * exp(before - largest) +
            static_cast<T>(cuda::block_sum(static_cast<double>(weight)));
      y *= exp(before - largest);
      for (std::int64_t j = 0; threadIdx.x < head.width && j < keys; ++j) {
        y += weights[j] * head.v[(first + j) * head.stride + threadIdx.x];
      }
      __syncthreads();  // before the next tile overwrites the weights
    }
    if (threadIdx.x < head.width) {
      const_cast<T*>(head.y)[query * (head.stride / 3) + threadIdx.x] = y / sum;
    }
    if (threadIdx.x == 0) {
      head.log_sums[query] = largest + log(sum);
    }
  }
}

/// One block per query: dq.
template <class T>
__global__ void query_backward_kernel(AttentionArgs<T> args, T scale, const T* dy,
                                      cuda::ScaledStore<T> store, T* dqkv) {
  __shared__ T dscores[kBlock];
  const std::int64_t rows = args.batch * args.heads * args.length;
  for (std::int64_t index = blockIdx.x; index < rows; index += gridDim.x) {
    const Head<T> head(args, index / args.length, dy);
    const std::int64_t query = index % args.length;
    T dq{0};
    for (std::int64_t first = 0; first <= query; first += kBlock) {
      const std::int64_t key = first + threadIdx.x;
      const std::int64_t keys = query + 1 - first < kBlock ? query + 1 - first : kBlock;
      T p;
      if (key <= query) {
        head.backward(query, key, scale, &p, &dscores[threadIdx.x]);
      }
      __syncthreads();
      for (std::int64_t j = 0; threadIdx.x < head.width && j < keys; ++j) {
        dq += dscores[j] * head.k[(first + j) * head.stride + threadIdx.x];
      }
      __syncthreads();
    }
    if (threadIdx.x < head.width) {
      store(dq, dqkv + (head.q - args.qkv) + query * head.stride + threadIdx.x);
    }
  }
}

/// One block per key: dk and dv.
template <class T>
__global__ void key_backward_kernel(AttentionArgs<T> args, T scale, const T* dy,
                                    cuda::ScaledStore<T> store, T* dqkv) {
  __shared__ T weights[kBlock];
  __shared__ T dscores[kBlock];
  const std::int64_t rows = args.batch * args.heads * args.length;
  for (std::int64_t index = blockIdx.x; index < rows; index += gridDim.x) {
    const Head<T> head(args, index / args.length, dy);
    const std::int64_t key = index % args.length;
    T dk{0};
    T dv{0};
    for (std::int64_t first = key; first < args.length; first += kBlock) {
      const std::int64_t query = first + threadIdx.x;
      const std::int64_t queries = args.length - first < kBlock ? args.length - first : kBlock;
      if (query < args.length) {
        head.backward(query, key, scale, &weights[threadIdx.x], &dscores[threadIdx.x]);
      }
      __syncthreads();
      for (std::int64_t i = 0; threadIdx.x < head.width && i < queries; ++i) {
        dk += dscores[i] * head.q[(first + i) * head.stride + threadIdx.x];
        dv += weights[i] * head.dy[(first + i) * (head.stride / 3) + threadIdx.x];
      }
      __syncthreads();
    }
    if (threadIdx.x < head.width) {
      T* dst = dqkv + key * head.stride + threadIdx.x;
      store(dk, dst + (head.k - args.qkv));
      store(dv, dst + (head.v - args.qkv));
    }
  }
}

}  // namespace

template <class T>
void CudaAttention<T>::attention(Stream& s, const AttentionArgs<T>& args) {
  cuda::launch(s, args.batch * args.heads * args.length, forward_kernel<T>, args,
               static_cast<T>(args.score_scale()));
}

template <class T>
void CudaAttention<T>::attention_backward(Stream& s, const AttentionArgs<T>& args, const T* dy,
                                          Scale scale, T* dqkv) {
  const std::int64_t blocks = args.batch * args.heads * args.length;
  const T score_scale = static_cast<T>(args.score_scale());
  const cuda::ScaledStore<T> store(scale);
  cuda::launch(s, blocks, query_backward_kernel<T>, args, score_scale, dy, store, dqkv);
  cuda::launch(s, blocks, key_backward_kernel<T>, args, score_scale, dy, store, dqkv);
}

template struct CudaAttention<float>;
template struct CudaAttention<double>;

}  // namespace brigade
