#include "nn/data/fashion_mnist.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace brigade::data {

namespace {

template <class... Args>
[[noreturn]] void refuse(const std::filesystem::path& path, fmt::format_string<Args...> fault,
                         Args&&... args) {
  throw UsageError(path.string() + ": " + fmt::format(fault, std::forward<Args>(args)...));
}

using GzFile = std::unique_ptr<gzFile_s, int (*)(gzFile)>;

GzFile open(const std::filesystem::path& path) {
  std::error_code absent;
  if (std::filesystem::exists(path, absent) && !std::filesystem::is_regular_file(path, absent)) {
    refuse(path, "expected a file");  // to open a pipe is to wait for somebody who writes into it
  }
  GzFile file(gzopen(path.c_str(), "rb"), gzclose_r);
  if (!file) {
    refuse(path, "cannot open: {}", std::generic_category().message(errno));
  }
  return file;
}

/// The next `wanted` bytes, unpacked; fewer only if the file ends. A piece at a time: a small file
/// may claim to hold, or unpack to, more than there is memory. gzread checks the checksum and
/// reports a file that ends too early.
std::vector<std::uint8_t> unpack(const GzFile& file, const std::filesystem::path& path,
                                 std::uint64_t wanted) {
  constexpr std::uint64_t kPiece = 1U << 16U;
  std::vector<std::uint8_t> bytes;
  while (bytes.size() < wanted) {
    const std::size_t filled = bytes.size();
    const std::uint64_t piece = std::min(kPiece, wanted - filled);
    bytes.resize(filled + piece);
    const int got = gzread(file.get(), bytes.data() + filled, static_cast<unsigned>(piece));
    int code = Z_OK;
    const char* reason = gzerror(file.get(), &code);
    if (got < 0 || code == Z_BUF_ERROR) {
      refuse(path, "damaged or cut off ({}); install it again", reason);
    }
    bytes.resize(filled + static_cast<std::size_t>(got));
    if (got == 0) {
      break;
    }
  }
  return bytes;
}

}  // namespace

IdxFile read_idx(const std::filesystem::path& path, std::size_t dimensions) {
  const GzFile packed = open(path);
  const std::size_t header = 4 + 4 * dimensions;
  const std::vector<std::uint8_t> bytes = unpack(packed, path, header);
  if (bytes.size() < header) {
    refuse(path, "expected an IDX header of {} bytes, got {} bytes", header, bytes.size());
  }
  if (bytes[0] != 0 || bytes[1] != 0 || bytes[2] != 8 || bytes[3] != dimensions) {
    refuse(path, "expected the IDX magic 0 0 8 {}, got {} {} {} {}", dimensions, int{bytes[0]},
           int{bytes[1]}, int{bytes[2]}, int{bytes[3]});
  }
  IdxFile file;
  std::uint64_t total = 1;
  for (std::size_t at = 4; at < header; at += 4) {
    const std::uint32_t extent =
        std::accumulate(&bytes[at], &bytes[at] + 4, 0U,
                        [](unsigned left, unsigned byte) { return left << 8U | byte; });
    if (extent == 0) {
      refuse(path, "expected extents above 0, got 0");
    }
    if (__builtin_mul_overflow(total, extent, &total)) {
      refuse(path, "its extents multiply to more than a file can hold");
    }
    file.extents.push_back(extent);
  }
  file.bytes = unpack(packed, path, total);
  if (file.bytes.size() != total || !unpack(packed, path, 1).empty()) {
    refuse(path, "expected {} bytes after the header, got {}", total,
           file.bytes.size() < total ? std::to_string(file.bytes.size()) : "more");
  }
  return file;
}

ImageDataset::ImageDataset(const std::filesystem::path& images, const std::filesystem::path& labels,
                           std::int64_t most) {
  IdxFile image_file = read_idx(images, 3);
  IdxFile label_file = read_idx(labels, 1);
  const std::int64_t count = image_file.extents[0];
  pixels_per_image_ = image_file.extents[1] * image_file.extents[2];
  if (label_file.extents[0] != count) {
    refuse(labels, "expected {} labels, one per image, got {}", count, label_file.extents[0]);
  }
  const auto bad =
      std::ranges::find_if(label_file.bytes, [](std::uint8_t label) { return label >= kClasses; });
  if (bad != label_file.bytes.end()) {
    refuse(labels, "expected labels below {}, got {} for image {}", kClasses, int{*bad},
           bad - label_file.bytes.begin());
  }
  size_ = std::min(count, most);
  pixels_ = std::move(image_file.bytes);
  labels_ = std::move(label_file.bytes);
}

std::uint64_t ImageDataset::checksum() const {
  const auto pixels = static_cast<std::size_t>(size_ * pixels_per_image_);
  return crc32_z(crc32_z(0, pixels_.data(), pixels), labels_.data(),
                 static_cast<std::size_t>(size_));
}

void ImageDataset::read(std::span<const std::int64_t> samples, const Batch& batch) const {
  float* input = batch.inputs.data<float>();
  auto* target = batch.targets.data<std::int64_t>();
  for (const std::int64_t sample : samples) {
    const std::uint8_t* image = pixels_.data() + sample * pixels_per_image_;
    input = std::transform(image, image + pixels_per_image_, input,
                           [](std::uint8_t pixel) { return static_cast<float>(pixel) / 255.0F; });
    *target++ = labels_[static_cast<std::size_t>(sample)];
  }
}

std::string fashion_mnist_directory() {
  const char* dir = std::getenv("BRIGADE_DATA_DIR");
  return dir != nullptr ? dir : "/usr/share/datasets/fashion-mnist";
}

std::unique_ptr<Dataset> fashion_mnist(Split split) {
  DataSplits splits = load_fashion_mnist(fashion_mnist_directory(), 0);
  return std::move(split == Split::train ? splits.train : splits.test);
}

DataSplits load_fashion_mnist(const std::filesystem::path& dir, std::int64_t train_samples) {
  constexpr std::array kNames{"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
                              "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"};
  for (const char* name : kNames) {
    if (std::error_code absent; !std::filesystem::exists(dir / name, absent)) {
      refuse(dir / name,
             "not found; install the images with `apt-get install dataset-fashion-mnist`, or say "
             "where they are with --data-dir DIR or the environment variable BRIGADE_DATA_DIR");
    }
  }
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  DataSplits splits;
  splits.name = "fashion-mnist";
  splits.train = std::make_unique<ImageDataset>(dir / kNames[0], dir / kNames[1],
                                                train_samples == 0 ? kAll : train_samples);
  if (splits.train->size() < train_samples) {
    throw UsageError(fmt::format("--train-samples: expected at most {}, the images in {}, got {}",
                                 splits.train->size(), dir.string(), train_samples));
  }
  splits.test = std::make_unique<ImageDataset>(dir / kNames[2], dir / kNames[3], kAll);
  if (splits.train->input_width() != splits.test->input_width()) {
    refuse(dir / kNames[2], "expected images of {} pixels like the training images, got {}",
           splits.train->input_width(), splits.test->input_width());
  }
  return splits;
}

}  // namespace brigade::data
