#pragma once

#include "optim/optimizer.h"

namespace brigade::optim {

/// torch.optim.SGD: coupled weight decay, velocity = gradient in the first step.
class SGD final : public Optimizer {
 public:
  struct Options {
    double lr = 0.01, momentum = 0.0, weight_decay = 0.0;
    bool nesterov = false;
  };
  /// Error: Nesterov without momentum, negative values.
  SGD(const std::vector<autograd::Variable>& parameters, Options options);

 protected:
  void update(const ParamRange& part) override;

 private:
  Options options_;
};

}  // namespace brigade::optim
