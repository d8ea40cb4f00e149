#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/tensor.h"

namespace brigade::data {

/// Samples to learn from and what is expected for them.
struct Batch {
  Tensor inputs;   ///< f32 [N, in]; of text the tokens: i64 [N, T]
  Tensor targets;  ///< class labels: i64 [N], of text [N, T]; else f32 [N, out]

  std::int64_t size() const { return inputs.shape()[0]; }
  Batch rows(std::int64_t begin, std::int64_t count) const {
    return {.inputs = inputs.rows(begin, count), .targets = targets.rows(begin, count)};
  }
};

/// Samples in host memory: the whole set on every rank; which ones a rank uses is
/// DistributedSampler's business.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  virtual std::int64_t input_width() const = 0;
  /// Width of the prediction: number of classes, or of numbers to predict.
  virtual std::int64_t output_width() const = 0;
  /// Whether targets are class labels.
  virtual bool classes() const = 0;
  /// Of all samples, for ranks to compare; 0 if samples come from no files.
  virtual std::uint64_t checksum() const { return 0; }

  /// Of text: how many of its bytes a target stands for. 0 for anything else.
  virtual double bytes_per_target() const { return 0.0; }

  /// Decodes `samples`, which may be none, into `batch`: on the CPU, as many rows as samples, in
  /// their order (allocate_batch). Several threads may read at a time.
  virtual void read(std::span<const std::int64_t> samples, const Batch& batch) const = 0;

  virtual DType inputs_dtype() const { return DType::f32; }
  virtual Shape targets_shape(std::int64_t samples) const {
    return classes() ? Shape{samples} : Shape{samples, output_width()};
  }
  DType targets_dtype() const { return classes() ? DType::i64 : DType::f32; }
};

/// What a network is trained on and what it is tested on.
struct DataSplits {
  std::string name;
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;
};

/// Uninitialised, for `samples` samples of `dataset`.
Batch allocate_batch(const Dataset& dataset, std::int64_t samples, Device device);

/// Assembles `samples` on the host and moves them to `device`.
Batch load_batch(const Dataset& dataset, std::span<const std::int64_t> samples, Device device);

}  // namespace brigade::data
