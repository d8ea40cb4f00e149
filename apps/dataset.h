#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/tensor.h"

namespace brigade::apps {

/// Samples in host memory: the whole set on every rank; which ones a rank uses is
/// dist::DistributedSampler's business.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  virtual std::int64_t input_width() const = 0;
  /// Width of the prediction: number of classes, or of numbers to predict.
  virtual std::int64_t output_width() const = 0;
  /// Of the samples in host memory.
  virtual std::size_t nbytes() const = 0;
  /// Whether targets are class labels.
  virtual bool classes() const = 0;

  /// Batches on the CPU, in the order of `samples`, which may be empty.
  ///   inputs: f32 [n, input_width]   targets: i64 [n] (classes) or f32 [n, output_width]
  virtual Tensor inputs(std::span<const std::int64_t> samples) const = 0;
  virtual Tensor targets(std::span<const std::int64_t> samples) const = 0;
};

/// What a network is trained on and what it is tested on.
struct DataSplits {
  std::string name;
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;
};

/// One micro-batch of one rank, on its device.
struct Batch {
  Tensor inputs;   ///< f32 [N, in]
  Tensor targets;  ///< i64 [N] or f32 [N, out]

  std::int64_t size() const { return inputs.shape()[0]; }
};

/// Assembles `samples` on the host and moves them to `device`.
Batch load_batch(const Dataset& dataset, std::span<const std::int64_t> samples, Device device);

}  // namespace brigade::apps
