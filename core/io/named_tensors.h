#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace brigade {

/// Named tensors in the order they were given.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// UsageError unless `found` has the names, shapes and types of `wanted`: it begins with `subject`
/// and lists what was expected and got.
void check_same_tensors(const NamedTensors& found, const NamedTensors& wanted,
                        const std::string& subject);

/// Copies every tensor of `from` into the one of the same name in `to`. The same UsageError, before
/// anything is copied.
void copy_by_name(const NamedTensors& from, const NamedTensors& to, const std::string& subject);

}  // namespace brigade
