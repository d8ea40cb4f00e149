#include "tests/support/slopes.h"

#include <limits>

#include "autograd/functions/binary.h"
#include "autograd/variable.h"

namespace brigade::test {

std::vector<autograd::Variable> numbers(std::size_t count) {
  std::vector<autograd::Variable> result;
  for (std::size_t i = 0; i < count; ++i) {
    result.emplace_back(Tensor::from(std::vector<float>{1}, {}), /*requires_grad=*/true,
                        std::string(1, static_cast<char>('a' + i)));
  }
  return result;
}

void backward_of(const std::vector<Use>& uses) {
  autograd::Variable loss;
  for (const Use& use : uses) {
    const autograd::Variable term = autograd::mul(use.parameter, use.slope);
    loss = loss.defined() ? autograd::add(loss, term) : term;
  }
  loss.backward();
}

double gradient_of(const autograd::Variable& parameter) {
  const Tensor grad = parameter.grad();
  return grad.defined() ? grad.item() : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace brigade::test
