#pragma once

#include <algorithm>
#include <vector>

namespace brigade::dist {

/// The upper one of two in the middle. `values`: at least one.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace brigade::dist
