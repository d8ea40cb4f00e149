#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "autograd/functions/linear.h"
#include "autograd/variable.h"
#include "core/device.h"
#include "nn/loss.h"
#include "nn/sequential.h"

namespace brigade::apps {

/// A multilayer perceptron: Linear layers with a ReLU after each but the last, as
/// torch.nn.Sequential(Linear(...), ReLU(), Linear(...), ...) would be.
struct MlpShape {
  std::vector<std::int64_t> widths;  ///< input, hidden layers, output
  bool bias = true;
  autograd::Precision precision = autograd::Precision::full;

  /// "784-512-512-10"
  std::string description() const;
};

/// Its weights depend on `seed` alone (manual_seed is called with it).
std::unique_ptr<nn::Sequential> make_mlp(const MlpShape& shape, std::uint64_t seed, Device device);

/// `mse` or `cross_entropy`.
nn::Loss* make_loss(const std::string& name);

std::int64_t count_elements(const std::vector<autograd::Variable>& parameters);

}  // namespace brigade::apps
