#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "nn/data/dataset.h"
#include "nn/data/tokenizer.h"

namespace brigade::data {

/// Tokens cut into sequences. A sample is `context` of them; its targets are the tokens that follow
/// each. The tokens after the last whole sequence are left out.
class TextDataset final : public Dataset {
 public:
  /// `bytes`: length of the text. UsageError if it is shorter than one sequence.
  TextDataset(std::vector<std::int32_t> tokens, std::int64_t bytes, std::int64_t context,
              std::int64_t vocabulary);

  std::int64_t size() const override { return (std::ssize(tokens_) - 1) / context_; }
  std::int64_t input_width() const override { return context_; }
  std::int64_t output_width() const override { return vocabulary_; }
  bool classes() const override { return true; }
  DType inputs_dtype() const override { return DType::i64; }
  Shape targets_shape(std::int64_t samples) const override { return {samples, context_}; }
  std::uint64_t checksum() const override;
  double bytes_per_target() const override {
    return static_cast<double>(bytes_) / static_cast<double>(tokens_.size());
  }
  void read(std::span<const std::int64_t> samples, const Batch& batch) const override;

 private:
  std::vector<std::int32_t> tokens_;
  std::int64_t bytes_, context_, vocabulary_;
};

/// The text of a file, or of all files below a directory in the order of their paths. Skips hidden
/// files and directories, those named build or runs, directories with a metrics.jsonl (a run's),
/// and files with a zero byte. Every tenth file is for testing; of a single one, its last tenth.
/// UsageError: nothing to read.
DataSplits load_text(const std::filesystem::path& path, const Tokenizer& tokenizer,
                     std::int64_t context);

}  // namespace brigade::data
