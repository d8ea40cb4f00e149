#include "nn/relu.h"

#include "autograd/functions/unary.h"

namespace brigade::nn {

Variable ReLU::forward(const Variable& x) {
  return autograd::relu(x);
}

}  // namespace brigade::nn
