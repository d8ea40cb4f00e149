#include "nn/gpt2_files.h"

#include <array>
#include <string>

#include "core/error.h"
#include "core/io/atomic_file.h"
#include "core/io/json_file.h"
#include "core/io/read_file.h"
#include "core/io/safetensors.h"
#include "core/ops.h"
#include "nn/weights.h"

namespace brigade::nn {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kPrefix = "transformer.";
constexpr const char* kHead = "lm_head.weight";
constexpr const char* kConfig = "config.json";

/// Of the layers that transformers call Conv1D.
bool is_transposed(const std::string& name) {
  constexpr std::array kLayers{"c_attn.weight", "c_proj.weight", "c_fc.weight"};
  return std::ranges::any_of(kLayers, [&](const char* end) { return name.ends_with(end); });
}

/// Between our layout and theirs.
Tensor converted(const std::string& name, const Tensor& x) {
  if (!is_transposed(name) || x.shape().rank() != 2) {
    return x;
  }
  Tensor y = Tensor::empty_like(x, {x.shape()[1], x.shape()[0]});
  ops::permute(x, std::array<std::size_t, 2>{1, 0}, {}, y);
  return y;
}

bool is_mask(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

std::int64_t number(const Json& json, const char* key, const fs::path& path) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_unsigned() || found->get<std::uint64_t>() == 0 ||
      found->get<std::uint64_t>() > 1U << 30U) {
    fail_to_read(path, fmt::format("expected a positive number {}, got {}", key,
                                   found == json.end() ? "nothing" : found->dump()));
  }
  return found->get<std::int64_t>();
}

}  // namespace

fs::path gpt2_config_of(const fs::path& path) {
  std::error_code absent;
  return (fs::is_directory(path, absent) ? path : path.parent_path()) / kConfig;
}

bool has_gpt2_config(const fs::path& path) {
  std::error_code absent;
  return fs::exists(gpt2_config_of(path), absent);
}

GPTOptions load_gpt2_options(const fs::path& path, GPTOptions options) {
  const fs::path file = gpt2_config_of(path);
  const Json json = read_json_object(file);
  const auto expect = [&](const char* key, const Json& wanted) {
    const Json found = json.value(key, wanted);
    if (found != wanted) {
      throw UsageError(fmt::format("cannot use {}: expected {} {}, got {}", file.string(), key,
                                   wanted.dump(), found.dump()));
    }
  };
  expect("model_type", "gpt2");
  expect("activation_function", "gelu_new");
  expect("layer_norm_epsilon", 1e-5);
  expect("tie_word_embeddings", true);
  expect("n_inner", nullptr);
  expect("scale_attn_weights", true);
  expect("scale_attn_by_inverse_layer_idx", false);
  options.layers = number(json, "n_layer", file);
  options.heads = number(json, "n_head", file);
  options.width = number(json, "n_embd", file);
  options.context = number(json, "n_positions", file);
  options.vocabulary = number(json, "vocab_size", file);
  return options;
}

void load_gpt2(const GPT& model, const fs::path& path) {
  std::error_code absent;
  const fs::path file = fs::is_directory(path, absent) ? path / "model.safetensors" : path;
  NamedTensors found;
  Tensor head;
  for (const auto& [name, tensor] : load_safetensors(file)) {
    if (name == kHead) {
      head = tensor;
    } else if (!is_mask(name)) {
      const std::string full = name.starts_with(kPrefix) ? name : std::string(kPrefix) + name;
      found.emplace_back(full, converted(full, tensor));
    }
  }
  const auto embedding =
      std::ranges::find(found, "transformer.wte.weight", &NamedTensors::value_type::first);
  if (head.defined() && embedding != found.end() &&
      head.to_vector<float>() != embedding->second.to_vector<float>()) {
    throw UsageError(
        fmt::format("cannot use {}: expected {} equal to transformer.wte.weight, got other values",
                    file.string(), kHead));
  }
  load_tensors(model, found, file);
}

void save_gpt2(const std::vector<Variable>& parameters, const GPTOptions& options,
               const fs::path& file) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : autograd::named_data(parameters)) {
    tensors.emplace_back(name, converted(name, tensor));
  }
  save_safetensors(file, tensors);
  const nlohmann::ordered_json json{{"model_type", "gpt2"},
                                    {"architectures", {"GPT2LMHeadModel"}},
                                    {"n_layer", options.layers},
                                    {"n_head", options.heads},
                                    {"n_embd", options.width},
                                    {"n_positions", options.context},
                                    {"vocab_size", options.vocabulary},
                                    {"activation_function", "gelu_new"},
                                    {"layer_norm_epsilon", 1e-5},
                                    {"tie_word_embeddings", true},
                                    {"embd_pdrop", options.dropout},
                                    {"resid_pdrop", options.dropout},
                                    {"attn_pdrop", options.dropout}};
  write_file_atomically(gpt2_config_of(file), json.dump(2) + "\n");
}

}  // namespace brigade::nn
