#pragma once

#include <cstdint>

#include "autograd/functions/fused_linear.h"
#include "nn/module.h"

namespace brigade::nn {

struct LinearOptions {
  bool bias = true;
  autograd::Precision precision = autograd::Precision::full;
};

/// y = x Wᵀ + b, by autograd/functions/fused_linear.h.  weight: [out, in]   bias: [out], optional
///
/// Both start uniform in ±1/√in, PyTorch's default, from the next two parameter streams of this
/// thread (manual_seed, core/random.h). Without bias the second stream is skipped, so the weights
/// that follow are the same with and without biases. On the CPU at first; see Module::to.
class Linear final : public Module {
 public:
  /// Error: `in` or `out` is not positive.
  Linear(std::int64_t in, std::int64_t out, const LinearOptions& options = {});

  Variable forward(const Variable& x) override;
  /// activation(forward(x)) in fewer passes over memory. In full precision on a CPU, the same bits.
  Variable forward_activated(const Variable& x, Activation activation) const;
  std::string description() const override;

 private:
  Variable weight_;
  Variable bias_;  // undefined without bias
  autograd::Precision precision_;
};

}  // namespace brigade::nn
