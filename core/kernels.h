#pragma once

#include <cstddef>
#include <cstdint>

#include "core/half.h"
#include "core/kernel_args.h"
#include "core/runtime/stream.h"

/// The two kernel sets, CpuKernels and CudaKernels: the same names and arguments, free of CUDA
/// includes, so that a laptop checks every call against both (core/dispatch.h).
///
/// A set is made of groups, one struct for each source file, which instantiates it for its number
/// types. Kernels work on raw, contiguous, already checked memory; core/ops.h is the checked front.
/// T is float or double.
///
/// A CPU kernel runs on the calling thread, which is its stream `s`. A CUDA kernel is enqueued on
/// the CUDA stream `s`, and its pointers are to device memory. It cannot throw: an index that the
/// CPU refuses becomes a row of NaN.
namespace brigade {

/// elementwise.cpp: functions of each element, copies between layouts, random numbers.
template <class T>
struct CpuElementwise {
  /// x[i] = value
  static void fill(Stream& s, std::int64_t n, T value, T* x);
  /// y = alpha x + beta y
  static void axpby(Stream& s, std::int64_t n, const T* x, Scale scale, T* y);
  /// y = alpha (a op b) + beta y, y in row-major order. An operand's stride is 0 in a dimension
  /// along which it is repeated; the last stride is 0 or 1. y may be a or b if not repeated.
  static void binary(Stream& s, BinaryOp op, const StridePair& dims, const T* a, const T* b,
                     Scale scale, T* y);
  /// y = op(x). x and y may be the same memory.
  static void unary(Stream& s, UnaryOp op, std::int64_t n, const T* x, T* y);
  /// dx = dy op'(x); `kept` is x or y (keeps_output in core/arithmetic.h). dx may be dy.
  static void unary_backward(Stream& s, UnaryOp op, std::int64_t n, const T* dy, const T* kept,
                             Scale scale, T* dx);
  /// dst[...] = alpha src[...] + beta dst[...] for each index: src has the a_strides, dst the
  /// b_strides. No two indices may have the same place in dst.
  static void copy_strided(Stream& s, const StridePair& copy, const T* src, Scale scale, T* dst);
  static void uniform(Stream& s, std::int64_t n, UniformArgs args, T* x);
  /// y = 0 where dropped, else x / (1 - p). Its own backward: dx from dy with the same `args`.
  static void dropout(Stream& s, std::int64_t n, DropoutArgs args, const T* x, Scale scale, T* y);
};

/// reduce.cpp: sums and maxima.
template <class T>
struct CpuReductions {
  /// y[o, i] = Σ_j x[o, j, i], stored as `scale` says; 0 for n = 0.   x: [outer, n, inner]
  static void reduce_sum(Stream& s, ReduceShape shape, const T* x, Scale scale, T* y);
  /// y[o, i] = max_j x[o, j, i], NaN if one is NaN; index[o, i]: the first such j. n > 0.
  static void reduce_max(Stream& s, ReduceShape shape, const T* x, T* y, std::int64_t* index);
  /// dx[o, j, i] = dy[o, i], with `index` (of reduce_max, or null) 0 for j other than index[o, i].
  static void reduce_backward(Stream& s, ReduceShape shape, const T* dy, const std::int64_t* index,
                              Scale scale, T* dx);
  /// dz, as unary_backward, and its column sums db[c] = Σ_r dz[r, c] in one pass, which rounds dz
  /// after it is added.   dy, kept, dz: [rows, cols], F is T or bf16, dz may be dy   db: [cols]
  template <class F>
  static void bias_backward(Stream& s, UnaryOp op, std::int64_t rows, std::int64_t cols,
                            const T* dy, const F* kept, F* dz, T* db);
};

/// losses.cpp
template <class T>
struct CpuLosses {
  /// loss = mean (x - target)² over n elements; 0 when n = 0.   loss: one element
  static void mse(Stream& s, std::int64_t n, const T* x, const T* target, T* loss);
  /// dx = dloss 2 (x - target) / n
  static void mse_backward(Stream& s, std::int64_t n, const T* x, const T* target, const T* dloss,
                           Scale scale, T* dx);
  /// loss = mean_r -log softmax(x[r])[label[r]]; keeps the softmax for backward.   x, softmax:
  /// [rows, cols]
  static void cross_entropy(Stream& s, std::int64_t rows, std::int64_t cols, const T* x,
                            const std::int64_t* labels, T* softmax, T* loss);
  /// dx[r, c] = dloss (softmax[r, c] - [c = label[r]]) / rows
  static void cross_entropy_backward(Stream& s, std::int64_t rows, std::int64_t cols,
                                     const T* softmax, const std::int64_t* labels, const T* dloss,
                                     Scale scale, T* dx);
  /// y[r, c] = [c = label[r]]
  static void one_hot(Stream& s, std::int64_t rows, std::int64_t cols, const std::int64_t* labels,
                      T* y);
};

/// gemm.cpp, linear.cpp: functions of matrices. F: type of factors, T or bf16.
template <class T>
struct CpuProducts {
  template <class F>
  static void gemm(Stream& s, const GemmArgs<T, F>& args);
  template <class F>
  static void linear(Stream& s, const LinearArgs<T, F>& args);
};

/// optimizers.cpp: what uses gradients.
template <class T>
struct CpuOptimizers {
  /// `velocity` is null when momentum is 0.
  static void sgd(Stream& s, std::int64_t n, SgdArgs args, const T* g, T* w, T* velocity);
  static void adam(Stream& s, std::int64_t n, AdamArgs args, const T* g, T* w, T* m, T* v);
  /// sum += Σ x²
  static void add_squares(Stream& s, std::int64_t n, const T* x, double* sum);
  /// x *= min(1, max_norm / (√squares + 1e-6)): torch.nn.utils.clip_grad_norm_ when `squares` is
  /// the sum over all gradients. If that is NaN, so is x.
  static void clip(Stream& s, std::int64_t n, const double* squares, double max_norm, T* x);
};

/// layers.cpp: the functions behind nn's other layers.
template <class T>
struct CpuLayers {
  /// y[i] = w[indices[i]], row by row. An index outside [0, vocabulary) is an Error.
  static void embedding(Stream& s, EmbeddingSize size, const std::int64_t* indices, const T* w,
                        T* y);
  /// dw[indices[i]] += alpha dy[i]. Each row is added to in the order of i: always the same bits.
  static void embedding_backward(Stream& s, EmbeddingSize size, const std::int64_t* indices,
                                 const T* dy, T alpha, T* dw);
  static void layer_norm(Stream& s, const LayerNormArgs<T>& args);
  /// dw[c] = Σ_r dy[r, c] x̂[r, c],  x̂ = (x - mean) rstd
  static void layer_norm_weight_backward(Stream& s, const LayerNormBackwardArgs<T>& args,
                                         Scale scale, T* dw);
  /// dx = rstd (g - mean_c(g) - x̂ mean_c(g x̂)),  g = dy weight
  static void layer_norm_input_backward(Stream& s, const LayerNormBackwardArgs<T>& args,
                                        Scale scale, T* dx);
};

/// attention.cpp
template <class T>
struct CpuAttention {
  static void attention(Stream& s, const AttentionArgs<T>& args);
  static void attention_backward(Stream& s, const AttentionArgs<T>& args, const T* dy, Scale scale,
                                 T* dqkv);
};

/// The CPU's kernel set.
struct CpuKernels {
  /// Aligned to 256 bytes (CachingAllocator::kAlignment). Null when there is no memory.
  static void* allocate(int device, std::size_t bytes);
  /// `bytes` as it was allocated with.
  static void deallocate(int device, void* block, std::size_t bytes);
  /// The system takes these pages back until they are written again; the values are lost.
  static void discard(void* dst, std::size_t bytes);
  static void zero(Stream& s, void* dst, std::size_t bytes);
  /// From the same device or from the host. `src` may be reused or freed at once, unless it is
  /// pinned (core/runtime/pinned.h).
  static void copy(Stream& s, void* dst, const void* src, std::size_t bytes);
  /// Returns when the bytes have arrived, but does not wait where `dst` is pinned.
  static void copy_to_host(Stream& s, void* dst, const void* src, std::size_t bytes);

  /// y[i] = x[i] in the 16 bits of Narrow: Half or BFloat16 (core/half.h says how it is rounded)
  template <class Narrow>
  static void narrow(Stream& s, std::int64_t n, const float* x, Narrow* y);
  /// y = alpha x + beta y
  template <class Narrow>
  static void widen(Stream& s, std::int64_t n, const Narrow* x, Scale scale, float* y);

  /// The kernels for numbers of type T.
  template <class T>
  struct For : CpuElementwise<T>,
               CpuReductions<T>,
               CpuLosses<T>,
               CpuProducts<T>,
               CpuOptimizers<T>,
               CpuLayers<T>,
               CpuAttention<T> {};
};

template <class T>
struct CudaElementwise {
  static void fill(Stream& s, std::int64_t n, T value, T* x);
  static void axpby(Stream& s, std::int64_t n, const T* x, Scale scale, T* y);
  static void binary(Stream& s, BinaryOp op, const StridePair& dims, const T* a, const T* b,
                     Scale scale, T* y);
  static void unary(Stream& s, UnaryOp op, std::int64_t n, const T* x, T* y);
  static void unary_backward(Stream& s, UnaryOp op, std::int64_t n, const T* dy, const T* kept,
                             Scale scale, T* dx);
  static void copy_strided(Stream& s, const StridePair& copy, const T* src, Scale scale, T* dst);
  static void uniform(Stream& s, std::int64_t n, UniformArgs args, T* x);
  static void dropout(Stream& s, std::int64_t n, DropoutArgs args, const T* x, Scale scale, T* y);
};

template <class T>
struct CudaReductions {
  static void reduce_sum(Stream& s, ReduceShape shape, const T* x, Scale scale, T* y);
  static void reduce_max(Stream& s, ReduceShape shape, const T* x, T* y, std::int64_t* index);
  static void reduce_backward(Stream& s, ReduceShape shape, const T* dy, const std::int64_t* index,
                              Scale scale, T* dx);
  template <class F>
  static void bias_backward(Stream& s, UnaryOp op, std::int64_t rows, std::int64_t cols,
                            const T* dy, const F* kept, F* dz, T* db);
};

template <class T>
struct CudaLosses {
  static void mse(Stream& s, std::int64_t n, const T* x, const T* target, T* loss);
  static void mse_backward(Stream& s, std::int64_t n, const T* x, const T* target, const T* dloss,
                           Scale scale, T* dx);
  static void cross_entropy(Stream& s, std::int64_t rows, std::int64_t cols, const T* x,
                            const std::int64_t* labels, T* softmax, T* loss);
  static void cross_entropy_backward(Stream& s, std::int64_t rows, std::int64_t cols,
                                     const T* softmax, const std::int64_t* labels, const T* dloss,
                                     Scale scale, T* dx);
  static void one_hot(Stream& s, std::int64_t rows, std::int64_t cols, const std::int64_t* labels,
                      T* y);
};

template <class T>
struct CudaProducts {
  template <class F>
  static void gemm(Stream& s, const GemmArgs<T, F>& args);
  template <class F>
  static void linear(Stream& s, const LinearArgs<T, F>& args);
};

template <class T>
struct CudaOptimizers {
  static void sgd(Stream& s, std::int64_t n, SgdArgs args, const T* g, T* w, T* velocity);
  static void adam(Stream& s, std::int64_t n, AdamArgs args, const T* g, T* w, T* m, T* v);
  static void add_squares(Stream& s, std::int64_t n, const T* x, double* sum);
  static void clip(Stream& s, std::int64_t n, const double* squares, double max_norm, T* x);
};

template <class T>
struct CudaLayers {
  static void embedding(Stream& s, EmbeddingSize size, const std::int64_t* indices, const T* w,
                        T* y);
  static void embedding_backward(Stream& s, EmbeddingSize size, const std::int64_t* indices,
                                 const T* dy, T alpha, T* dw);
  static void layer_norm(Stream& s, const LayerNormArgs<T>& args);
  static void layer_norm_weight_backward(Stream& s, const LayerNormBackwardArgs<T>& args,
                                         Scale scale, T* dw);
  static void layer_norm_input_backward(Stream& s, const LayerNormBackwardArgs<T>& args,
                                        Scale scale, T* dx);
};

template <class T>
struct CudaAttention {
  static void attention(Stream& s, const AttentionArgs<T>& args);
  static void attention_backward(Stream& s, const AttentionArgs<T>& args, const T* dy, Scale scale,
                                 T* dqkv);
};

/// The GPU's kernel set.
struct CudaKernels {
  static void* allocate(int device, std::size_t bytes);
  static void deallocate(int device, void* block, std::size_t bytes);
  static void zero(Stream& s, void* dst, std::size_t bytes);
  static void copy(Stream& s, void* dst, const void* src, std::size_t bytes);
  static void copy_to_host(Stream& s, void* dst, const void* src, std::size_t bytes);
  template <class Narrow>
  static void narrow(Stream& s, std::int64_t n, const float* x, Narrow* y);
  template <class Narrow>
  static void widen(Stream& s, std::int64_t n, const Narrow* x, Scale scale, float* y);

  template <class T>
  struct For : CudaElementwise<T>,
               CudaReductions<T>,
               CudaLosses<T>,
               CudaProducts<T>,
               CudaOptimizers<T>,
               CudaLayers<T>,
               CudaAttention<T> {};
};

}  // namespace brigade
