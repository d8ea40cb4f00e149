#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "autograd/variable.h"
#include "dist/ddp/grad_averager.h"

namespace brigade::test {

/// Parameters of one number each, named "a", "b", ..., all 1.
std::vector<autograd::Variable> numbers(std::size_t count);

/// A parameter that a loss depends on, and the loss's derivative with respect to it.
struct Use {
  autograd::Variable parameter;
  double slope;
};

/// Backward through loss = Σ slope · parameter: every gradient is a literal in the test.
void backward_of(const std::vector<Use>& uses);

/// The gradient of such a parameter; NaN if it has none.
double gradient_of(const autograd::Variable& parameter);

inline constexpr dist::SyncMode kAllModes[] = {dist::SyncMode::naive, dist::SyncMode::flat,
                                               dist::SyncMode::per_param, dist::SyncMode::overlap};

}  // namespace brigade::test
