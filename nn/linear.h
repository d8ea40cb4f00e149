#pragma once

#include <cstdint>

#include "autograd/functions/linear.h"
#include "nn/module.h"

namespace brigade::nn {

/// y = x Wᵀ + b (autograd/functions/linear.h).   weight: [out, in]   bias: [out], optional
///
/// Both start uniform in ±1/√in, PyTorch's default. The numbers are those of Philox sequence
/// sequences::kParameters + `first_sequence` (weight) and + `first_sequence` + 1 (bias): every rank
/// gets the same ones.
class Linear final : public Module {
 public:
  struct Options {
    std::int64_t in = 0;
    std::int64_t out = 0;
    bool bias = true;
    std::uint64_t seed = 0;
    std::uint32_t first_sequence = 0;
    Device device = kCpu;
    autograd::Precision precision = autograd::Precision::full;
  };
  explicit Linear(const Options& options);

  Variable forward(const Variable& x) override;
  /// What a ReLU after this layer would give (on a CPU bit by bit), in fewer passes over memory.
  Variable forward_relu(const Variable& x) const;
  void collect_parameters(const std::string& prefix,
                          std::vector<Variable>& parameters) const override;
  std::string description() const override;

 private:
  Variable weight_;
  Variable bias_;  // undefined without bias
  autograd::Precision precision_;
};

}  // namespace brigade::nn
