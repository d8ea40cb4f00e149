#include "tests/autograd/probe.h"

#include <utility>

#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {
Variable probe(EventLog& log, const std::string& name, std::initializer_list<Variable> inputs) {
  Tensor y = Tensor::zeros(inputs.begin()->shape(), inputs.begin()->data().dtype());
  for (const Variable& input : inputs) {
    ops::axpby(input.data(), {.alpha = 1.0, .beta = 1.0}, y);
  }
  const auto backward = [&log, name, count = inputs.size()](const Tensor& dy, GradWriter& grads) {
    for (std::size_t i = 0; i < count; ++i) {
      grads.write(i, [&](Tensor& dx, Scale scale) {
        log.push_back(name + ":" + std::to_string(i));
        ops::axpby(dy, scale, dx);
      });
    }
  };
  return record("probe", std::move(y), inputs, backward);
}

Variable scalar_leaf(float value, std::string name) {
  return Variable(Tensor::from(std::vector<float>{value}, {}), /*requires_grad=*/true,
                  std::move(name));
}

double grad_of(const Variable& variable) {
  return variable.grad().item();
}

}  // namespace brigade::autograd
