#include "nn/weights.h"

#include <string>

#include "core/error.h"
#include "core/io/safetensors.h"
#include "core/ops.h"

namespace brigade::nn {
namespace {

/// Under the names from `model` down, whatever module contains it.
NamedTensors named_data(const Module& model) {
  NamedTensors tensors;
  for (const auto& [name, parameter] : model.named_parameters()) {
    tensors.emplace_back(name, parameter.data());
  }
  return tensors;
}

}  // namespace

void save_parameters(const std::vector<Variable>& parameters, const std::filesystem::path& path) {
  save_safetensors(path, autograd::named_data(parameters));
}

void save(const Module& model, const std::filesystem::path& path) {
  save_safetensors(path, named_data(model));
}

void load(const Module& model, const std::filesystem::path& path) {
  load_tensors(model, load_safetensors(path), path);
}

void load_tensors(const Module& model, const NamedTensors& found,
                  const std::filesystem::path& path) {
  const NamedTensors own = named_data(model);
  check_same_tensors(found, own, path.string());
  for (const auto& [name, tensor] : found) {
    if (!ops::all_finite(tensor)) {
      throw UsageError(
          fmt::format("{}: expected finite numbers, got others in {}: the training that it comes "
                      "from has diverged",
                      path.string(), name));
    }
  }
  copy_by_name(found, own, path.string());
}

}  // namespace brigade::nn
