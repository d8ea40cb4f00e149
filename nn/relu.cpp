#include "nn/relu.h"

#include "autograd/functions/relu.h"

namespace brigade::nn {

Variable ReLU::forward(const Variable& x) {
  return autograd::relu(x);
}

void ReLU::collect_parameters(const std::string& /*prefix*/,
                              std::vector<Variable>& /*parameters*/) const {}

}  // namespace brigade::nn
