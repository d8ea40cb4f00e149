#pragma once

#include "optim/optimizer.h"

namespace brigade::optim {

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.0;
  bool decoupled = false;
  bool decay_matrices_only = false;  ///< of Rates
};

/// torch.optim.Adam (weight decay added to the gradient) and, with `decoupled`, AdamW (weights
/// shrunk by lr times weight_decay; Loshchilov & Hutter, arXiv:1711.05101). Adam: Kingma & Ba,
/// arXiv:1412.6980, algorithm 1.
class Adam final : public Optimizer {
 public:
  using Options = AdamOptions;
  /// Error: negative values, betas outside [0, 1).
  explicit Adam(const std::vector<autograd::Variable>& parameters, const Options& options = {});

 protected:
  void update(const ParamRange& part) override;

 private:
  Options options_;
};

}  // namespace brigade::optim
