#include "apps/training/model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <sstream>

#include "core/error.h"
#include "core/io/safetensors.h"
#include "core/random.h"
#include "nn/linear.h"
#include "nn/relu.h"

namespace brigade::apps {

namespace {

/// "0.weight [512, 784] f32"
std::string signature(const std::string& name, const Tensor& tensor) {
  return concat(name, " ", tensor.shape(), " ", tensor.dtype());
}

/// All of a few faults; of many, those a reader needs to see what is going on.
std::string first_few(const std::vector<std::string>& faults) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(faults.size(), kShown); ++i) {
    text += (i == 0 ? "" : "; ") + faults[i];
  }
  return faults.size() > kShown ? concat(text, "; and ", faults.size() - kShown, " more") : text;
}

}  // namespace

std::string MlpShape::description() const {
  std::ostringstream text;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    text << (i == 0 ? "" : "-") << widths[i];
  }
  return text.str();
}

std::unique_ptr<nn::Sequential> make_mlp(const MlpShape& shape, std::uint64_t seed, Device device) {
  BRIGADE_CHECK(shape.widths.size() >= 2,
                "make_mlp: expected at least an input and an output width, got ",
                shape.widths.size());
  manual_seed(seed);
  auto model = std::make_unique<nn::Sequential>();
  for (std::size_t layer = 0; layer + 1 < shape.widths.size(); ++layer) {
    if (layer > 0) {
      model->append(nn::ReLU());
    }
    model->append(nn::Linear(shape.widths[layer], shape.widths[layer + 1],
                             {.bias = shape.bias, .precision = shape.precision}));
  }
  model->to(device);
  return model;
}

nn::Loss* make_loss(const std::string& name) {
  if (name == "mse") {
    return nn::mse_loss;
  }
  BRIGADE_CHECK(name == "cross_entropy", "loss: expected mse or cross_entropy, got ", name);
  return nn::cross_entropy;
}

std::int64_t count_elements(const std::vector<autograd::Variable>& parameters) {
  std::int64_t count = 0;
  for (const autograd::Variable& parameter : parameters) {
    count += parameter.shape().numel();
  }
  return count;
}

void load_weights(const std::filesystem::path& path,
                  const std::vector<autograd::Variable>& parameters) {
  std::map<std::string, Tensor> found;
  for (const auto& [name, tensor] : load_safetensors(path)) {
    found.emplace(name, tensor);
  }
  std::vector<std::string> faults;
  bool same_network = true;  // but for the numbers' type
  std::map<std::string, Tensor> left = found;
  for (const autograd::Variable& parameter : parameters) {
    const std::string expected = signature(parameter.name(), parameter.data());
    const auto match = found.find(parameter.name());
    const std::string got =
        match == found.end() ? "nothing" : signature(match->first, match->second);
    if (got != expected) {
      faults.push_back(concat("expected ", expected, ", got ", got));
      same_network &= match != found.end() && match->second.shape() == parameter.shape();
    }
    left.erase(parameter.name());
  }
  for (const auto& [name, tensor] : left) {
    faults.push_back(concat("expected nothing, got ", signature(name, tensor)));
  }
  if (!faults.empty()) {
    const bool convert = same_network && left.empty();
    throw UsageError(
        concat("--init ", path.string(), ": ",
               convert ? "numbers of another type: " : "the weights of another network: ",
               first_few(faults),
               convert ? "; convert the file"
                       : "; choose --hidden, --depth, --width, --no-bias to match"));
  }
  for (const auto& [name, tensor] : found) {
    const std::span values(tensor.data<float>(), static_cast<std::size_t>(tensor.numel()));
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
      throw UsageError(concat("--init ", path.string(), ": expected finite numbers, got others in ",
                              name, ": the training that it comes from has diverged"));
    }
  }
  for (const autograd::Variable& parameter : parameters) {
    parameter.data().copy_from(found.at(parameter.name()));
  }
}

void save_weights(const std::filesystem::path& path,
                  const std::vector<autograd::Variable>& parameters) {
  NamedTensors tensors;
  for (const autograd::Variable& parameter : parameters) {
    tensors.emplace_back(parameter.name(), parameter.data());
  }
  save_safetensors(path, tensors, {{"format", "pt"}});
}

}  // namespace brigade::apps
