#pragma once

#include <filesystem>
#include <vector>

#include "nn/gpt.h"

/// GPT-2 as Hugging Face's transformers keep it: a directory with config.json and
/// model.safetensors, or that file alone. There the weights of a block's four linear layers are
/// [in, out], and lm_head.weight, the second use of transformer.wte.weight, is left out.
namespace brigade::nn {

/// The config.json in or beside `path`.
std::filesystem::path gpt2_config_of(const std::filesystem::path& path);

/// Whether `path` is a directory with a config.json, or a file beside one.
bool has_gpt2_config(const std::filesystem::path& path);

/// The sizes in config.json; dropout and precision of `options`. UsageError: it is missing, damaged
/// or says what this GPT cannot be: other norms, activations or untied embeddings.
GPTOptions load_gpt2_options(const std::filesystem::path& path, GPTOptions options);

/// Overwrites the weights. Also reads names without "transformer.", and ignores the masks
/// ("attn.bias") that old files hold. UsageError as load() of weights.h.
void load_gpt2(const GPT& model, const std::filesystem::path& path);

/// Writes the weights to `file` and config.json beside it, atomically each. Waits for the device.
void save_gpt2(const std::vector<Variable>& parameters, const GPTOptions& options,
               const std::filesystem::path& file);

}  // namespace brigade::nn
