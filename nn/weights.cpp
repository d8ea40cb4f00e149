#include "nn/weights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "core/error.h"
#include "core/io/safetensors.h"

namespace brigade::nn {
namespace {

/// "0.weight [512, 784] f32"
std::string signature(const std::string& name, const Tensor& tensor) {
  return message_of(name, " ", tensor.shape(), " ", tensor.dtype());
}

/// All of a few faults; of many, enough to see the pattern.
std::string first_few(const std::vector<std::string>& faults) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(faults.size(), kShown); ++i) {
    text += (i == 0 ? "" : "; ") + faults[i];
  }
  return faults.size() > kShown ? message_of(text, "; and ", faults.size() - kShown, " more")
                                : text;
}

/// `found`: what the file has.
void check_same_network(const std::vector<Variable>& parameters,
                        std::map<std::string, Tensor> found, const std::filesystem::path& path) {
  std::vector<std::string> faults;
  bool same_network = true;  // except for the type of the numbers
  for (const Variable& parameter : parameters) {
    const std::string expected = signature(parameter.name(), parameter.data());
    const auto match = found.extract(parameter.name());
    const std::string got = match ? signature(match.key(), match.mapped()) : "nothing";
    if (got != expected) {
      faults.push_back(message_of("expected ", expected, ", got ", got));
      same_network &= match && match.mapped().shape() == parameter.shape();
    }
  }
  for (const auto& [name, tensor] : found) {
    faults.push_back(message_of("expected nothing, got ", signature(name, tensor)));
  }
  if (!faults.empty()) {
    const bool convert = same_network && found.empty();
    throw UsageError(message_of(
        path.string(), ": ",
        convert ? "numbers of another type: " : "the weights of another network: ",
        first_few(faults), convert ? "; convert the file" : "; use the network it was saved from"));
  }
}

void check_finite(const std::string& name, const Tensor& tensor,
                  const std::filesystem::path& path) {
  const bool all = dispatch_float(tensor.dtype(), [&]<class T>() {
    return std::ranges::all_of(tensor.to_vector<T>(), [](T value) { return std::isfinite(value); });
  });
  if (!all) {
    throw UsageError(message_of(path.string(), ": expected finite numbers, got others in ", name,
                                ": the training that it comes from has diverged"));
  }
}

}  // namespace

void save_parameters(const std::vector<Variable>& parameters, const std::filesystem::path& path) {
  NamedTensors tensors;
  for (const Variable& parameter : parameters) {
    tensors.emplace_back(parameter.name(), parameter.data());
  }
  save_safetensors(path, tensors, {{"format", "pt"}});
}

void load(const Module& model, const std::filesystem::path& path) {
  const std::vector<Variable> parameters = model.parameters();
  std::map<std::string, Tensor> found;
  for (const auto& [name, tensor] : load_safetensors(path)) {
    found.emplace(name, tensor);
  }
  check_same_network(parameters, found, path);
  for (const auto& [name, tensor] : found) {
    check_finite(name, tensor, path);
  }
  for (const Variable& parameter : parameters) {
    parameter.data().copy_from(found.at(parameter.name()));
  }
}

}  // namespace brigade::nn
