#include "tests/support/compare_weights.h"

#include <cmath>
#include <map>

#include "core/error.h"
#include "core/io/safetensors.h"

namespace brigade {
namespace {

std::map<std::string, Tensor> by_name(const std::filesystem::path& path) {
  const NamedTensors tensors = load_safetensors(path);
  return {tensors.begin(), tensors.end()};
}

}  // namespace

double relative_l2(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto left = by_name(a);
  const auto right = by_name(b);
  BRIGADE_CHECK(left.size() == right.size(), "{} has {} tensors, {} has {}", a.string(),
                left.size(), b.string(), right.size());
  double difference = 0.0;
  double norm = 0.0;
  for (const auto& [name, tensor] : left) {
    const auto found = right.find(name);
    BRIGADE_CHECK(found != right.end(), "tensor {} is missing in {}", name, b.string());
    BRIGADE_CHECK(found->second.shape() == tensor.shape(), "tensor {}: {} against {}", name,
                  tensor.shape(), found->second.shape());
    const auto x = tensor.to_vector<float>();
    const auto y = found->second.to_vector<float>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = static_cast<double>(y[i]);
      difference += std::pow(static_cast<double>(x[i]) - expected, 2);
      norm += expected * expected;
    }
  }
  return std::sqrt(difference / norm);
}

}  // namespace brigade
