#include <algorithm>
#include <cmath>

#include "core/cpu/vectorized_private.h"
#include "core/error.h"
#include "core/kernels.h"

namespace brigade {
namespace {

std::int64_t checked_index(EmbeddingSize size, const std::int64_t* indices, std::int64_t i) {
  BRIGADE_CHECK(indices[i] >= 0 && indices[i] < size.vocabulary,
                "embedding: expected indices 0 to {} (vocabulary of {}), got {} at position {}",
                size.vocabulary - 1, size.vocabulary, indices[i], i);
  return indices[i];
}

}  // namespace

// A row is read from memory once and from the cache afterwards. Its sums are doubles: the variance
// as a mean of squares around the mean loses no digits to a large mean.
template <class T>
void CpuLayers<T>::layer_norm(Stream& /*s*/, const LayerNormArgs<T>& args) {
  const auto& [rows, cols, all_x, weight, bias, eps, all_y, means, rstds] = args;
  const auto n = static_cast<double>(cols);
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* x = all_x + row * cols;
    T* y = all_y + row * cols;
    const double mean = sum_of(cols, [=](std::int64_t i) { return static_cast<double>(x[i]); }) / n;
    const double variance = sum_of(cols,
                                   [=](std::int64_t i) {
                                     const double difference = static_cast<double>(x[i]) - mean;
                                     return difference * difference;
                                   }) /
                            n;
    means[row] = static_cast<T>(mean);
    rstds[row] = static_cast<T>(1.0 / std::sqrt(variance + eps));
    const T m = means[row];
    const T rstd = rstds[row];
    vectorized([=, w = weight, b = bias, count = cols] {
      for (std::int64_t i = 0; i < count; ++i) {
        const T normalized = (x[i] - m) * rstd;
        y[i] = (w != nullptr ? normalized * w[i] : normalized) + (b != nullptr ? b[i] : T{0});
      }
    });
  }
}

template <class T>
void CpuLayers<T>::layer_norm_weight_backward(Stream& /*s*/, const LayerNormBackwardArgs<T>& args,
                                              Scale scale, T* dw) {
  const auto& [rows, cols, dy, x, weight, mean, rstd] = args;
  sum_columns<T>(
      rows, cols,
      [dy = dy, x = x, mean = mean, rstd = rstd](std::int64_t row, std::int64_t i) {
        return dy[i] * (x[i] - mean[row]) * rstd[row];
      },
      [=](std::int64_t column, T sum) { store(sum, scale, dw[column]); });
}

template <class T>
void CpuLayers<T>::layer_norm_input_backward(Stream& /*s*/, const LayerNormBackwardArgs<T>& args,
                                             Scale scale, T* all_dx) {
  const T* weight = args.weight;
  const auto n = static_cast<double>(args.cols);
  for (std::int64_t row = 0; row < args.rows; ++row) {
    const T* dy = args.dy + row * args.cols;
    const T* x = args.x + row * args.cols;
    T* dx = all_dx + row * args.cols;
    const T mean = args.mean[row];
    const T rstd = args.rstd[row];
    const auto g = [=](std::int64_t i) { return weight != nullptr ? dy[i] * weight[i] : dy[i]; };
    const auto normalized = [=](std::int64_t i) { return (x[i] - mean) * rstd; };
    const auto mean_g = static_cast<T>(
        sum_of(args.cols, [=](std::int64_t i) { return static_cast<double>(g(i)); }) / n);
    const auto mean_gx = static_cast<T>(
        sum_of(args.cols,
               [=](std::int64_t i) { return static_cast<double>(g(i) * normalized(i)); }) /
        n);
    vectorized([=, cols = args.cols] {
      for (std::int64_t i = 0; i < cols; ++i) {
        store(rstd * (g(i) - mean_g - normalized(i) * mean_gx), scale, dx[i]);
      }
    });
  }
}

template <class T>
void CpuLayers<T>::embedding(Stream& /*s*/, EmbeddingSize size, const std::int64_t* indices,
                             const T* w, T* y) {
  for (std::int64_t i = 0; i < size.count; ++i) {
    const std::int64_t index = checked_index(size, indices, i);
    std::copy_n(w + index * size.width, size.width, y + i * size.width);
  }
}

template <class T>
void CpuLayers<T>::embedding_backward(Stream& s, EmbeddingSize size, const std::int64_t* indices,
                                      const T* dy, T alpha, T* dw) {
  for (std::int64_t i = 0; i < size.count; ++i) {
    T* row = dw + checked_index(size, indices, i) * size.width;
    CpuElementwise<T>::axpby(s, size.width, dy + i * size.width,
                             {.alpha = static_cast<double>(alpha), .beta = 1.0}, row);
  }
}

template struct CpuLayers<float>;
template struct CpuLayers<double>;

}  // namespace brigade
