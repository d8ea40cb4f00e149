#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/arithmetic.h"
#include "core/cpu/vectorized_private.h"
#include "core/kernels.h"
#include "core/random.h"
#include "core/tensor.h"

// Attention without the matrix of length x length probabilities: the softmax of a row is taken
// over one block of keys after the other ("online", Milakov & Gimelshein, arXiv:1805.02867), and
// backward computes the probabilities again from log_sums (Rabe & Staats, arXiv:2112.05682;
// FlashAttention, arXiv:2205.14135). For a block of queries and of keys:
//
//   s = q kᵀ / √width          p = exp(s - largest so far)      y = y exp(old - new largest) + p v
//
// and in the end y /= Σ p. Backward, with δ_i = Σ dy_i y_i:
//
//   p = exp(s - log_sum)       ds = p (dy vᵀ - δ) / √width
//   dv += pᵀ dy                dq += ds k                       dk += dsᵀ q
//
// Dropout multiplies p by a factor m, 0 or 1 / (1 - dropout.p), where p is multiplied with v:
// y = y … + (p m) v, dv += (p m)ᵀ dy, and ds = p (m dy vᵀ - δ) / √width. Σ p and δ stay the same.
//
// A head's matrices are copied out of qkv first, so that their rows adjoin for gemm; that is little
// beside the products.
namespace brigade {
namespace {

constexpr std::int64_t kQueries = 64;  // of a block
constexpr std::int64_t kKeys = 512;    // a multiple of it: the first key is visible to all queries

/// One of q, k, v of one head of one sequence inside qkv, or a head's part of y: rows of `width`
/// numbers, `stride` apart.
template <class T>
struct Rows {
  T* first;
  std::int64_t count, width, stride;

  void copy_to(T* matrix) const {
    for (std::int64_t row = 0; row < count; ++row) {
      std::copy_n(first + row * stride, width, matrix + row * width);
    }
  }
  void store_from(const T* matrix, Scale scale) const {
    for (std::int64_t row = 0; row < count; ++row) {
      T* dst = first + row * stride;
      const T* src = matrix + row * width;
      write_scaled(width, scale, dst, [=](std::int64_t i) { return src[i]; });
    }
  }
};

/// The rows of one head in one sequence of `all`. A row of `all` holds `parts` such matrices side
/// by side: q, k and v in qkv, else one.
template <class T>
Rows<T> head_rows(const AttentionArgs<T>& args, T* all, std::int64_t sequence, std::int64_t head,
                  std::int64_t parts = 1, std::int64_t part = 0) {
  const std::int64_t row = args.heads * args.width;
  return {all + (sequence * args.length * parts + part) * row + head * args.width, args.length,
          args.width, parts * row};
}

/// Consecutive queries and consecutive keys.
struct Block {
  std::int64_t first_query, queries, first_key, keys;

  /// How many of its keys the block's query number `i` may see: those not after it.
  std::int64_t visible(std::int64_t i) const {
    return std::min(keys, first_query + i + 1 - first_key);
  }
};

/// fn(block) for all blocks in which a query sees a key, a block of queries after the other.
template <class Fn>
void for_each_block(std::int64_t length, const Fn& fn) {
  for (std::int64_t query = 0; query < length; query += kQueries) {
    const std::int64_t queries = std::min(kQueries, length - query);
    for (std::int64_t key = 0; key < query + queries; key += kKeys) {
      fn(Block{query, queries, key, std::min(kKeys, query + queries - key)});
    }
  }
}

/// What one head works with. Its memory is used for one head after the other.
template <class T>
class Head {
 public:
  Head(Stream& stream, const AttentionArgs<T>& args)
      : stream_(stream),
        args_(args),
        memory_(
            Tensor::empty({8 * args.length * args.width + 2 * kQueries * kKeys + kKeys + kQueries},
                          kDTypeOf<T>)) {
    T* next = memory_.template data<T>();
    for (T** matrix : {&q_, &k_, &v_, &y_, &dq_, &dk_, &dv_, &dy_}) {
      *matrix = std::exchange(next, next + args.length * args.width);
    }
    scores_ = std::exchange(next, next + kQueries * kKeys);
    dscores_ = std::exchange(next, next + kQueries * kKeys);
    dropout_factors_ = std::exchange(next, next + kKeys);
    std::fill_n(dropout_factors_, kKeys, T{1});
    sums_ = next;
  }

  void load(std::int64_t sequence, std::int64_t head) {
    T* qkv = const_cast<T*>(args_.qkv);  // only read
    int part = 0;
    for (T* matrix : {q_, k_, v_}) {
      head_rows(args_, qkv, sequence, head, 3, part++).copy_to(matrix);
    }
    first_row_ = (sequence * args_.heads + head) * args_.length;
    log_sums_ = args_.log_sums + first_row_;
  }

  void forward(std::int64_t sequence, std::int64_t head) {
    load(sequence, head);
    for_each_block(args_.length, [this](const Block& block) {
      score(block);
      const bool first = block.first_key == 0;
      for (std::int64_t i = 0; i < block.queries; ++i) {
        add_to_softmax(block, i, first);
      }
      multiply(false, block.queries, args_.width, block.keys, scores_, row_of(v_, block.first_key),
               false, {.beta = first ? 0.0 : 1.0}, row_of(y_, block.first_query));
      if (block.first_key + block.keys == block.first_query + block.queries) {
        finish(block);
      }
    });
    head_rows(args_, args_.y, sequence, head).store_from(y_, {});
  }

  void backward(std::int64_t sequence, std::int64_t head, const T* dy, Scale scale, T* dqkv) {
    load(sequence, head);
    head_rows(args_, args_.y, sequence, head).copy_to(y_);
    head_rows(args_, const_cast<T*>(dy), sequence, head).copy_to(dy_);
    for (T* gradient : {dq_, dk_, dv_}) {
      std::fill_n(gradient, args_.length * args_.width, T{0});
    }
    for_each_block(args_.length, [this](const Block& block) { backward(block); });
    int part = 0;
    for (const T* gradient : {dq_, dk_, dv_}) {
      head_rows(args_, dqkv, sequence, head, 3, part++).store_from(gradient, scale);
    }
  }

 private:
  T* row_of(T* matrix, std::int64_t row) const { return matrix + row * args_.width; }

  /// c = alpha op(a) op(b) + beta c   c: [m, n]
  void multiply(bool transpose_a, std::int64_t m, std::int64_t n, std::int64_t k, const T* a,
                const T* b, bool transpose_b, Scale scale, T* c) {
    CpuProducts<T>::gemm(stream_, GemmArgs<T>{transpose_a, transpose_b, m, n, k, a, b, c, scale});
  }

  /// scores = q kᵀ / √width   [queries, keys]
  void score(const Block& block) {
    multiply(false, block.queries, block.keys, args_.width, row_of(q_, block.first_query),
             row_of(k_, block.first_key), true, {.alpha = args_.score_scale()}, scores_);
  }

  /// Row `i` of scores becomes exp(score - largest), 0 where the key comes after the query; what
  /// was summed with a smaller one shrinks. Until finish(), log_sums holds the largest scores.
  void add_to_softmax(const Block& block, std::int64_t i, bool first) {
    const std::int64_t visible = block.visible(i);
    T* row = scores_ + i * block.keys;
    T& largest = log_sums_[block.first_query + i];
    const T before = first ? -std::numeric_limits<T>::infinity() : largest;
    largest = std::max(before, largest_of(visible, row));
    vectorized([row, visible, to = largest] {
      for (std::int64_t j = 0; j < visible; ++j) {
        row[j] = exp_of(row[j] - to);
      }
    });
    std::fill(row + visible, row + block.keys, T{0});
    const double sum =
        sum_of(visible, [row](std::int64_t j) { return static_cast<double>(row[j]); });
    if (args_.dropout.p > 0.0) {
      draw_dropout(block, i);
      vectorized([row, visible, m = dropout_factors_] {
        for (std::int64_t j = 0; j < visible; ++j) {
          row[j] *= m[j];
        }
      });
    }
    const T shrink = exp_of(before - largest);
    sums_[i] = static_cast<T>(sum) + (first ? T{0} : shrink * sums_[i]);
    if (!first) {
      scale_row(row_of(y_, block.first_query + i), shrink);
    }
  }

  /// dropout_factors_[j] = m of the block's query `i` and its key number j.
  void draw_dropout(const Block& block, std::int64_t i) {
    const std::int64_t first =
        (first_row_ + block.first_query + i) * args_.length + block.first_key;
    const std::uint32_t threshold = args_.dropout.threshold();
    const auto factor = static_cast<T>(1.0 / (1.0 - args_.dropout.p));
    for_each_word(args_.dropout.stream, first, block.visible(i),
                  [&](std::int64_t j, std::uint32_t word) {
                    dropout_factors_[j] = word >> 8U < threshold ? T{0} : factor;
                  });
  }

  /// y /= Σ p, and log_sums has its own meaning.
  void finish(const Block& block) {
    for (std::int64_t i = 0; i < block.queries; ++i) {
      scale_row(row_of(y_, block.first_query + i), T{1} / sums_[i]);
      log_sums_[block.first_query + i] += std::log(sums_[i]);
    }
  }

  void scale_row(T* row, T factor) {
    write_scaled(args_.width, {.alpha = static_cast<double>(factor)}, row,
                 [row](std::int64_t column) { return row[column]; });
  }

  void backward(const Block& block) {
    T* dy = row_of(dy_, block.first_query);
    T* k = row_of(k_, block.first_key);
    score(block);
    multiply(false, block.queries, block.keys, args_.width, dy, row_of(v_, block.first_key), true,
             {}, dscores_);
    for (std::int64_t i = 0; i < block.queries; ++i) {
      backward_row(block, i);
    }
    multiply(true, block.keys, args_.width, block.queries, scores_, dy, false, {.beta = 1.0},
             row_of(dv_, block.first_key));
    multiply(false, block.queries, args_.width, block.keys, dscores_, k, false, {.beta = 1.0},
             row_of(dq_, block.first_query));
    multiply(true, block.keys, args_.width, block.queries, dscores_, row_of(q_, block.first_query),
             false, {.beta = 1.0}, row_of(dk_, block.first_key));
  }

  /// Row `i` of scores becomes p, that of dscores ds.
  void backward_row(const Block& block, std::int64_t i) {
    const std::int64_t visible = block.visible(i);
    const std::int64_t query = block.first_query + i;
    T* p = scores_ + i * block.keys;
    T* ds = dscores_ + i * block.keys;
    const T* y = row_of(y_, query);
    const T* dy = row_of(dy_, query);
    const T delta = static_cast<T>(sum_of(args_.width, [=](std::int64_t column) {
      return static_cast<double>(dy[column] * y[column]);
    }));
    if (args_.dropout.p > 0.0) {
      draw_dropout(block, i);
    }
    vectorized([=, m = dropout_factors_, log_sum = log_sums_[query],
                scale = static_cast<T>(args_.score_scale())] {
      for (std::int64_t j = 0; j < visible; ++j) {
        const T probability = exp_of(p[j] - log_sum);
        p[j] = m[j] * probability;
        ds[j] = probability * (m[j] * ds[j] - delta) * scale;
      }
    });
    std::fill(p + visible, p + block.keys, T{0});
    std::fill(ds + visible, ds + block.keys, T{0});
  }

  Stream& stream_;
  const AttentionArgs<T>& args_;
  Tensor memory_;
  T *q_{}, *k_{}, *v_{}, *y_{}, *dq_{}, *dk_{}, *dv_{}, *dy_{};  // [length, width]
  T *scores_{}, *dscores_{};                                     // [kQueries, kKeys]
  T* dropout_factors_ = nullptr;                                 // [kKeys]: m of a row
  T* sums_ = nullptr;                                            // [kQueries]: Σ p
  std::int64_t first_row_ = 0;                                   // of p, of all heads
  T* log_sums_ = nullptr;                                        // [length]
};

}  // namespace

template <class T>
void CpuAttention<T>::attention(Stream& s, const AttentionArgs<T>& args) {
  Head<T> head(s, args);
  for (std::int64_t i = 0; i < args.batch * args.heads; ++i) {
    head.forward(i / args.heads, i % args.heads);
  }
}

template <class T>
void CpuAttention<T>::attention_backward(Stream& s, const AttentionArgs<T>& args, const T* dy,
                                         Scale scale, T* dqkv) {
  Head<T> head(s, args);
  for (std::int64_t i = 0; i < args.batch * args.heads; ++i) {
    head.backward(i / args.heads, i % args.heads, dy, scale, dqkv);
  }
}

template struct CpuAttention<float>;
template struct CpuAttention<double>;

}  // namespace brigade
