#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "nn/data/dataset.h"

namespace brigade::data {

/// Bytes in the IDX format of the MNIST files: magic 00 00 08 d, d big-endian extents, the bytes.
struct IdxFile {
  std::vector<std::int64_t> extents;
  std::vector<std::uint8_t> bytes;
};

/// Reads a gzipped (or plain) IDX file of unsigned bytes with `dimensions` extents. UsageError
/// naming the file and the fault: missing, damaged, not of this kind, shorter or longer than its
/// extents say.
IdxFile read_idx(const std::filesystem::path& path, std::size_t dimensions);

/// Grey images of clothes in ten classes. An input is pixel / 255, row by row, and nothing else.
class ImageDataset final : public Dataset {
 public:
  static constexpr std::int64_t kClasses = 10;

  /// `most` caps the number of images. UsageError if counts differ or a label is not below 10.
  ImageDataset(const std::filesystem::path& images, const std::filesystem::path& labels,
               std::int64_t most);

  std::int64_t size() const override { return size_; }
  std::int64_t input_width() const override { return pixels_per_image_; }
  std::int64_t output_width() const override { return kClasses; }
  bool classes() const override { return true; }
  std::uint64_t checksum() const override;
  void read(std::span<const std::int64_t> samples, const Batch& batch) const override;

 private:
  std::int64_t size_ = 0;
  std::int64_t pixels_per_image_ = 0;
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint8_t> labels_;
};

enum class Split : bool { train, test };

/// The directory that the environment variable BRIGADE_DATA_DIR names, else the one of Debian's
/// package dataset-fashion-mnist.
std::string fashion_mnist_directory();

/// Fashion-MNIST's 60,000 images to train on or its 10,000 to test with, from that directory.
/// Errors as load_fashion_mnist's.
std::unique_ptr<Dataset> fashion_mnist(Split split = Split::train);

/// Fashion-MNIST from its four idx.gz files; `train_samples` 0 means
/// all. UsageError with the apt command when files are missing.
DataSplits load_fashion_mnist(const std::filesystem::path& dir, std::int64_t train_samples);

}  // namespace brigade::data
