#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/cpu/vectorized_private.h"
#include "core/error.h"
#include "core/kernels.h"

namespace brigade {
namespace {

void check_label(std::int64_t label, std::int64_t classes, std::int64_t row) {
  BRIGADE_CHECK(label >= 0 && label < classes, "labels: expected 0 to ", classes - 1, ", got ",
                label, " in row ", row);
}

}  // namespace

// L = Σ (x − t)² / n
template <class T>
void CpuKernels::mse(Stream& /*s*/, std::int64_t n, const T* x, const T* target, T* loss) {
  // double: a float sum over a batch of images loses the digits that show whether training moves
  const double sum = sum_of(n, [=](std::int64_t i) {
    const double difference = static_cast<double>(x[i]) - static_cast<double>(target[i]);
    return difference * difference;
  });
  *loss = n > 0 ? static_cast<T>(sum / static_cast<double>(n)) : T{0};
}

// dx = 2 (x − t) / n · dL
template <class T>
void CpuKernels::mse_backward(Stream& /*s*/, std::int64_t n, const T* x, const T* target,
                              const T* dloss, Scale scale, T* dx) {
  const T factor =
      n > 0
          ? static_cast<T>(scale.alpha * 2.0 * static_cast<double>(*dloss) / static_cast<double>(n))
          : T{0};
  const T beta = static_cast<T>(scale.beta);
  vectorized([=] {  // two loops: a load under a condition would keep it from being vectorised
    if (beta == T{0}) {
      for (std::int64_t i = 0; i < n; ++i) {
        dx[i] = factor * (x[i] - target[i]);
      }
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        dx[i] = factor * (x[i] - target[i]) + beta * dx[i];
      }
    }
  });
}

// L = mean over rows of  log Σ exp(x_c − m) − (x_label − m),  m = max x_c.    x: [rows, cols]
template <class T>
void CpuKernels::cross_entropy(Stream& /*s*/, std::int64_t rows, std::int64_t cols, const T* x,
                               const std::int64_t* labels, T* softmax, T* loss) {
  double sum = 0.0;
  for (std::int64_t row = 0; row < rows; ++row) {
    check_label(labels[row], cols, row);
    const T* logits = x + row * cols;
    T* probabilities = softmax + row * cols;
    const T largest =
        *std::max_element(logits, logits + cols);  // subtracted, so that exp cannot overflow
    double total = 0.0;
    for (std::int64_t col = 0; col < cols; ++col) {
      probabilities[col] = std::exp(logits[col] - largest);
      total += static_cast<double>(probabilities[col]);
    }
    for (std::int64_t col = 0; col < cols; ++col) {
      probabilities[col] = static_cast<T>(static_cast<double>(probabilities[col]) / total);
    }
    sum += std::log(total) - static_cast<double>(logits[labels[row]] - largest);
  }
  *loss = rows > 0 ? static_cast<T>(sum / static_cast<double>(rows)) : T{0};
}

// dx = (softmax − one_hot(label)) / rows · dL: forward kept the softmax, so no exp is needed again
template <class T>
void CpuKernels::cross_entropy_backward(Stream& /*s*/, std::int64_t rows, std::int64_t cols,
                                        const T* softmax, const std::int64_t* labels,
                                        const T* dloss, Scale scale, T* dx) {
  const T factor =
      rows > 0
          ? static_cast<T>(scale.alpha * static_cast<double>(*dloss) / static_cast<double>(rows))
          : T{0};
  const T beta = static_cast<T>(scale.beta);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      const std::int64_t i = row * cols + col;
      const T value = factor * (softmax[i] - (col == labels[row] ? T{1} : T{0}));
      dx[i] = scale.beta == 0.0 ? value : value + beta * dx[i];
    }
  }
}

template <class T>
void CpuKernels::one_hot(Stream& s, std::int64_t rows, std::int64_t cols,
                         const std::int64_t* labels, T* y) {
  fill(s, rows * cols, T{0}, y);
  for (std::int64_t row = 0; row < rows; ++row) {
    check_label(labels[row], cols, row);
    y[row * cols + labels[row]] = T{1};
  }
}

// Of equal largest values the first column counts, as on the GPU.
template <class T>
void CpuKernels::count_correct(Stream& /*s*/, std::int64_t rows, std::int64_t cols, const T* x,
                               const std::int64_t* labels, std::int64_t* correct) {
  *correct = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* values = x + row * cols;
    *correct += std::max_element(values, values + cols) - values == labels[row] ? 1 : 0;
  }
}

// One instantiation of every kernel above per element type.
template <class T>
struct Instantiate {
  static constexpr auto kAll =
      std::tuple(&CpuKernels::mse<T>, &CpuKernels::mse_backward<T>, &CpuKernels::cross_entropy<T>,
                 &CpuKernels::cross_entropy_backward<T>, &CpuKernels::one_hot<T>,
                 &CpuKernels::count_correct<T>);
};
template struct Instantiate<float>;
template struct Instantiate<double>;

}  // namespace brigade
