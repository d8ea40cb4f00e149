#pragma once

#include <string>
#include <utility>
#include <vector>

#include "autograd/variable.h"

namespace brigade::nn {

using autograd::Variable;

/// A layer or a composition of layers: a function with parameters.
class Module {
 public:
  virtual ~Module() = default;

  virtual Variable forward(const Variable& x) = 0;

  /// Appends the parameters under `prefix` in a fixed order, named as PyTorch names them
  /// ("0.weight").
  virtual void collect_parameters(const std::string& prefix,
                                  std::vector<Variable>& parameters) const = 0;

  /// "Linear(784, 512)", for the first screen.
  virtual std::string description() const = 0;

  /// All parameters in registration order, carrying their full names.
  std::vector<Variable> parameters() const;
};

}  // namespace brigade::nn
