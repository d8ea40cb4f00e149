#include "nn/embedding.h"

#include "core/error.h"
#include "nn/init.h"

namespace brigade::nn {

Embedding::Embedding(std::int64_t vocabulary, std::int64_t width) {
  BRIGADE_CHECK(vocabulary > 0 && width > 0,
                "Embedding: expected a positive vocabulary and width, got {} and {}", vocabulary,
                width);
  weight_ = register_parameter("weight", Variable(Tensor::empty({vocabulary, width}), true));
  init_normal(weight_, 1.0);
}

std::string Embedding::description() const {
  return fmt::format("Embedding({}, {})", weight_.shape()[0], weight_.shape()[1]);
}

}  // namespace brigade::nn
