#pragma once

#include <cstdint>
#include <optional>

#include "dist/comm/communicator.h"
#include "nn/data/dataset.h"
#include "nn/loss.h"
#include "nn/module.h"

namespace brigade::apps {

struct Evaluation {
  double loss = 0.0;
  std::optional<double>
      accuracy;  ///< share of targets whose class was predicted; nothing without classes
  std::optional<double> bits_per_byte = {};  ///< of text: what it could be compressed to
};

/// Tests the model on all of `dataset`, each rank on its share. The result is the same on all
/// ranks. Collective.
Evaluation evaluate(nn::Module& model, nn::Loss& loss, const data::Dataset& dataset,
                    std::int64_t batch, dist::Communicator& comm, Device device);

}  // namespace brigade::apps
