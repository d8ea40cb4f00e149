#include "core/io/named_tensors.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "core/error.h"

namespace brigade {
namespace {

/// "0.weight [512, 784] f32"
std::string signature(const std::string& name, const Tensor& tensor) {
  return fmt::format("{} {} {}", name, tensor.shape(), tensor.dtype());
}

/// All of a few faults; of many, enough to see the pattern.
std::string first_few(const std::vector<std::string>& faults) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(faults.size(), kShown); ++i) {
    text += (i == 0 ? "" : "; ") + faults[i];
  }
  return faults.size() > kShown ? fmt::format("{}; and {} more", text, faults.size() - kShown)
                                : text;
}

}  // namespace

void check_same_tensors(const NamedTensors& tensors, const NamedTensors& wanted,
                        const std::string& subject) {
  std::map<std::string, Tensor> found(tensors.begin(), tensors.end());
  std::vector<std::string> faults;
  bool same_shapes = true;
  for (const auto& [name, tensor] : wanted) {
    const std::string expected = signature(name, tensor);
    const auto match = found.extract(name);
    const std::string got = match ? signature(name, match.mapped()) : "nothing";
    if (got != expected) {
      faults.push_back(fmt::format("expected {}, got {}", expected, got));
      same_shapes &= match && match.mapped().shape() == tensor.shape();
    }
  }
  for (const auto& [name, tensor] : found) {
    faults.push_back(fmt::format("expected nothing, got {}", signature(name, tensor)));
  }
  if (!faults.empty()) {
    const bool convert = same_shapes && found.empty();
    throw UsageError(fmt::format(
        "{}: {}: {}; {}", subject,
        convert ? "numbers of another type" : "the weights of another network", first_few(faults),
        convert ? "convert the file" : "use the network it was saved from"));
  }
}

void copy_by_name(const NamedTensors& from, const NamedTensors& to, const std::string& subject) {
  check_same_tensors(from, to, subject);
  const std::map<std::string, Tensor> found(from.begin(), from.end());
  for (auto [name, tensor] : to) {
    tensor.copy_from(found.at(name));
  }
}

}  // namespace brigade
