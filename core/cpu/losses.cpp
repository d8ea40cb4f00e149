#include <cmath>

#include "core/arithmetic.h"
#include "core/cpu/vectorized_private.h"
#include "core/error.h"
#include "core/kernels.h"

namespace brigade {
namespace {

void check_label(std::int64_t label, std::int64_t classes, std::int64_t row) {
  BRIGADE_CHECK(label >= 0 && label < classes, "labels: expected 0 to {}, got {} in row {}",
                classes - 1, label, row);
}

}  // namespace

// L = Σ (x − t)² / n
template <class T>
void CpuLosses<T>::mse(Stream& /*s*/, std::int64_t n, const T* x, const T* target, T* loss) {
  // double: a float sum over a batch of images loses the digits that show whether training moves
  const double sum = sum_of(n, [=](std::int64_t i) {
    const double difference = static_cast<double>(x[i]) - static_cast<double>(target[i]);
    return difference * difference;
  });
  *loss = n > 0 ? static_cast<T>(sum / static_cast<double>(n)) : T{0};
}

// dx = 2 (x − t) / n · dL
template <class T>
void CpuLosses<T>::mse_backward(Stream& /*s*/, std::int64_t n, const T* x, const T* target,
                                const T* dloss, Scale scale, T* dx) {
  const double factor = n > 0 ? 2.0 * static_cast<double>(*dloss) / static_cast<double>(n) : 0.0;
  write_scaled(n, scale.times(factor), dx, [=](std::int64_t i) { return x[i] - target[i]; });
}

// L = mean over rows of  log Σ exp(x_c − m) − (x_label − m),  m = max x_c.    x: [rows, cols]
template <class T>
void CpuLosses<T>::cross_entropy(Stream& /*s*/, std::int64_t rows, std::int64_t cols, const T* x,
                                 const std::int64_t* labels, T* softmax, T* loss) {
  double sum = 0.0;
  for (std::int64_t row = 0; row < rows; ++row) {
    check_label(labels[row], cols, row);
    const T* logits = x + row * cols;
    T* probabilities = softmax + row * cols;
    const T largest = largest_of(cols, logits);  // subtracted, so that exp cannot overflow
    vectorized([=] {
      for (std::int64_t col = 0; col < cols; ++col) {
        probabilities[col] = exp_of(logits[col] - largest);
      }
    });
    const double total =
        sum_of(cols, [=](std::int64_t col) { return static_cast<double>(probabilities[col]); });
    const double share = 1.0 / total;
    vectorized([=] {
      for (std::int64_t col = 0; col < cols; ++col) {
        probabilities[col] = static_cast<T>(static_cast<double>(probabilities[col]) * share);
      }
    });
    sum += std::log(total) - static_cast<double>(logits[labels[row]] - largest);
  }
  *loss = rows > 0 ? static_cast<T>(sum / static_cast<double>(rows)) : T{0};
}

// dx = (softmax − one_hot(label)) / rows · dL: forward kept the softmax, so no exp is needed again
template <class T>
void CpuLosses<T>::cross_entropy_backward(Stream& /*s*/, std::int64_t rows, std::int64_t cols,
                                          const T* softmax, const std::int64_t* labels,
                                          const T* dloss, Scale scale, T* dx) {
  const double mean = rows > 0 ? static_cast<double>(*dloss) / static_cast<double>(rows) : 0.0;
  const Scale total = scale.times(mean);
  for (std::int64_t row = 0; row < rows; ++row) {
    check_label(labels[row], cols, row);
    const T* probabilities = softmax + row * cols;
    T* out = dx + row * cols;
    // The one that differs is put right afterwards.
    T at_label = out[labels[row]];
    store(probabilities[labels[row]] - T{1}, total, at_label);
    write_scaled(cols, total, out, [=](std::int64_t col) { return probabilities[col]; });
    out[labels[row]] = at_label;
  }
}

template <class T>
void CpuLosses<T>::one_hot(Stream& s, std::int64_t rows, std::int64_t cols,
                           const std::int64_t* labels, T* y) {
  CpuElementwise<T>::fill(s, rows * cols, T{0}, y);
  for (std::int64_t row = 0; row < rows; ++row) {
    check_label(labels[row], cols, row);
    y[row * cols + labels[row]] = T{1};
  }
}

template struct CpuLosses<float>;
template struct CpuLosses<double>;

}  // namespace brigade
