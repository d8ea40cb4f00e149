#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/flags/options.h"
#include "autograd/functions/fused_linear.h"
#include "autograd/variable.h"
#include "core/device.h"
#include "dist/comm/communicator.h"
#include "nn/data/dataset.h"
#include "nn/gpt.h"
#include "nn/loss.h"
#include "nn/module.h"

namespace brigade::apps {

/// A multilayer perceptron: Linear layers with a ReLU after each but the last, as
/// torch.nn.Sequential(Linear(...), ReLU(), Linear(...), ...) would be. Or a GPT.
struct ModelShape {
  std::vector<std::int64_t> widths;  ///< input, hidden layers, output
  bool bias = true;
  autograd::Precision precision = autograd::Precision::full;
  std::optional<nn::GPTOptions> gpt = {};

  /// "784-512-512-10"
  std::string description() const;
  /// Numbers of the largest activation of one sample.
  std::int64_t widest() const;
  /// Of a sample; 1 if it is no text.
  std::int64_t tokens() const { return gpt ? widths.front() : 1; }
  /// Floating point operations of one token in forward and backward: 6 for each of `parameters`,
  /// which is a multiplication and an addition in three products, and 12 L W T for the attention
  /// of L layers (Chowdhery et al., arXiv:2204.02311, appendix B). Of a GPT.
  double flops_per_token(std::int64_t parameters) const;
};

/// Its weights depend on `seed` alone (manual_seed is called with it).
std::unique_ptr<nn::Module> make_network(const ModelShape& shape, std::uint64_t seed,
                                         Device device);

ModelShape shape_of(const Options& options, const data::Dataset& data);

/// Weights made from `seed`, or those of --init.
std::unique_ptr<nn::Module> make_model(const Options& options, const data::Dataset& data,
                                       std::uint64_t seed, Device device);

/// Dropout of this rank gets other random numbers than that of other ranks.
void drop_other_elements(std::uint64_t seed, int rank);

/// `mse` or `cross_entropy`.
nn::Loss* make_loss(const std::string& name);

/// Rank 0's weights as a hash, and whether all ranks have the same bits.
struct WeightsHash {
  std::uint64_t hash = 0;
  bool equal = true;
};
/// Collective.
WeightsHash hash_weights(const std::vector<autograd::Variable>& parameters,
                         dist::Communicator& comm);

std::int64_t count_elements(const std::vector<autograd::Variable>& parameters);

}  // namespace brigade::apps
