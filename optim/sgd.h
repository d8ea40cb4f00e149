#pragma once

#include "optim/optimizer.h"

namespace brigade::optim {

struct SGDOptions {
  double lr = 0.01, momentum = 0.0, weight_decay = 0.0;
  bool nesterov = false;
  bool decay_matrices_only = false;  ///< see Rates in optimizer.h
};

/// torch.optim.SGD: coupled weight decay, velocity = gradient in the first step.
class SGD final : public Optimizer {
 public:
  using Options = SGDOptions;
  /// Error: Nesterov without momentum, negative values.
  explicit SGD(const std::vector<autograd::Variable>& parameters, const Options& options = {});

 protected:
  void update(const ParamRange& part) override;

 private:
  Options options_;
};

}  // namespace brigade::optim
