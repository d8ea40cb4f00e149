#include <algorithm>

#include "core/error.h"
#include "core/kernels.h"

namespace brigade {
namespace {

std::int64_t checked_index(EmbeddingSize size, const std::int64_t* indices, std::int64_t i) {
  BRIGADE_CHECK(indices[i] >= 0 && indices[i] < size.vocabulary,
                "embedding: expected indices 0 to ", size.vocabulary - 1, " (vocabulary of ",
                size.vocabulary, "), got ", indices[i], " at position ", i);
  return indices[i];
}

}  // namespace

template <class T>
void CpuKernels::embedding(Stream& /*s*/, EmbeddingSize size, const std::int64_t* indices,
                           const T* w, T* y) {
  for (std::int64_t i = 0; i < size.count; ++i) {
    const std::int64_t index = checked_index(size, indices, i);
    std::copy_n(w + index * size.width, size.width, y + i * size.width);
  }
}

template <class T>
void CpuKernels::embedding_backward(Stream& s, EmbeddingSize size, const std::int64_t* indices,
                                    const T* dy, T alpha, T* dw) {
  for (std::int64_t i = 0; i < size.count; ++i) {
    T* row = dw + checked_index(size, indices, i) * size.width;
    axpby(s, size.width, dy + i * size.width, {.alpha = static_cast<double>(alpha), .beta = 1.0},
          row);
  }
}

template decltype(CpuKernels::embedding<float>) CpuKernels::embedding<float>;
template decltype(CpuKernels::embedding<double>) CpuKernels::embedding<double>;
template decltype(CpuKernels::embedding_backward<float>) CpuKernels::embedding_backward<float>;
template decltype(CpuKernels::embedding_backward<double>) CpuKernels::embedding_backward<double>;

}  // namespace brigade
