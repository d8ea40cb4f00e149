#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "nn/data/dataset.h"

namespace brigade::data {

/// A made-up task that needs no files and that a network can learn: inputs are uniform in (-√3,
/// √3), so of variance 1, and a fixed random network with one hidden layer, the teacher, gives the
/// targets:
///
///   y = A relu(B x)      B: [64, in]   A: [out, 64]      scaled so that y has variance about 1
///
/// As classes, the target is the index of y's largest element. All numbers come from Philox
/// sequences: sample i is the same on every rank, on every machine, and however many samples there
/// are.
class SyntheticDataset final : public Dataset {
 public:
  struct Options {
    std::int64_t in = 0;
    std::int64_t out = 0;
    bool classes = false;
    std::uint64_t seed = 0;
    /// Number of the first sample, a multiple of kChunk; keeps test from training samples.
    std::int64_t first = 0;
    std::int64_t size = 0;
  };
  static constexpr std::int64_t kChunk = 256;  ///< samples that share one Philox sequence

  explicit SyntheticDataset(const Options& options);

  std::int64_t size() const override { return options_.size; }
  std::int64_t input_width() const override { return options_.in; }
  std::int64_t output_width() const override { return options_.out; }
  bool classes() const override { return options_.classes; }
  void read(std::span<const std::int64_t> samples, const Batch& batch) const override;

 private:
  void append_targets(const Tensor& y);

  Options options_;
  // Plain vectors, so that the tensors' memory statistics show the training alone.
  std::vector<float> inputs_;  // [size, in]
  std::vector<float> values_;  // [size, out], empty with classes
  std::vector<std::int64_t> labels_;
};

/// `options.size` samples of the task.
std::unique_ptr<Dataset> synthetic(const SyntheticDataset::Options& options);

/// `train_samples` to learn from and 1024 others to be tested on.
DataSplits make_synthetic(SyntheticDataset::Options options, std::int64_t train_samples);

}  // namespace brigade::data
