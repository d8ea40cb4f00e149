#pragma once

#include <filesystem>
#include <vector>

#include "nn/module.h"

namespace brigade::nn {

/// Writes the parameters under their names to a .safetensors file that PyTorch reads as a
/// state_dict. Atomic (core/io/safetensors.h). Waits for the device.
void save_parameters(const std::vector<Variable>& parameters, const std::filesystem::path& path);

/// The same of a model, under the names from `model` down, whatever module contains it.
void save(const Module& model, const std::filesystem::path& path);

/// Rank 0 writes; all ranks return when the file is complete. `world`: anything with rank() and
/// barrier(). Collective.
template <class World>
void save(const Module& model, const std::filesystem::path& path, const World& world) {
  if (world.rank() == 0) {
    save(model, path);
  }
  world.barrier();
}

/// Overwrites the parameters with the weights of a .safetensors file, such as a PyTorch state_dict.
/// Every rank reads the file by itself. May come before or after DataParallel is made. UsageError
/// unless the file has exactly these names and shapes, in the parameters' type, and finite numbers;
/// it lists expected and got.
void load(const Module& model, const std::filesystem::path& path);

/// The same of tensors that are read already; `path` is for messages.
void load_tensors(const Module& model, const NamedTensors& tensors,
                  const std::filesystem::path& path);

}  // namespace brigade::nn
