#include "tests/autograd/probe.h"

#include <utility>

#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {
namespace {

class ProbeNode final : public Node {
 public:
  ProbeNode(EventLog& log, std::string name) : log_(log), name_(std::move(name)) {}
  const char* name() const override { return name_.c_str(); }

  void backward(const Tensor& dy, GradWriter& grads) override {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      grads.write(i, [&](Tensor& dx, Scale scale) {
        log_.push_back(name_ + ":" + std::to_string(i));
        ops::axpby(dy, scale, dx);
      });
    }
  }

  void release() override {}

 private:
  EventLog& log_;
  std::string name_;
};

}  // namespace

Variable probe(EventLog& log, std::string name, std::initializer_list<Variable> inputs) {
  Tensor y = Tensor::zeros(inputs.begin()->shape(), inputs.begin()->data().dtype());
  for (const Variable& input : inputs) {
    ops::axpby(input.data(), {.alpha = 1.0, .beta = 1.0}, y);
  }
  return record<ProbeNode>(std::move(y), inputs, log, std::move(name));
}

Variable scalar_leaf(float value, std::string name) {
  return Variable(Tensor::from(std::vector<float>{value}, {}), /*requires_grad=*/true,
                  std::move(name));
}

double grad_of(const Variable& variable) {
  return variable.grad().item();
}

}  // namespace brigade::autograd
