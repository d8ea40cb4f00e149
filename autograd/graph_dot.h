#pragma once

#include <functional>
#include <string>

#include "autograd/variable.h"

namespace brigade::autograd {

/// The graph that `root` was computed by, in the language of Graphviz: a box for each recorded
/// function, an ellipse for each leaf. Arrows go from inputs to results, backward against them.
///
/// `attributes` of a leaf, such as `label="0.weight", fillcolor=3`. Call it before backward, which
/// takes functions apart.
std::string graph_dot(const Variable& root,
                      const std::function<std::string(const GradState& leaf)>& attributes);

}  // namespace brigade::autograd
