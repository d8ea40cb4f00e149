#include "nn/data/synthetic.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/ops.h"
#include "core/random.h"

namespace brigade::data {

namespace {

constexpr std::int64_t kTeacherHidden = 64;
constexpr std::int64_t kTestSamples = 1024;
constexpr std::int64_t kFirstTestSample = SyntheticDataset::kChunk << 20U;

// The sequences after kSynthetic: the teacher's two matrices, then one per chunk of samples.
constexpr std::uint32_t kTeacherB = sequences::kSynthetic;
constexpr std::uint32_t kTeacherA = sequences::kSynthetic + 1;
constexpr std::uint32_t kChunks = sequences::kSynthetic + 2;

/// Uniform in (-limit, limit): variance limit² / 3.
Tensor uniform(const Shape& shape, double limit, std::uint64_t seed, std::uint32_t sequence) {
  Tensor x = Tensor::empty(shape);
  ops::uniform({.stream = {.seed = seed, .sequence = sequence}, .low = -limit, .high = limit}, x);
  return x;
}

/// The rows of `from` with these numbers, one after the other in `batch`.
template <class T>
void gather_rows(const std::vector<T>& from, std::int64_t width,
                 std::span<const std::int64_t> samples, const Tensor& batch) {
  T* place = batch.data<T>();
  for (const std::int64_t sample : samples) {
    place = std::copy_n(from.begin() + sample * width, width, place);
  }
}

}  // namespace

SyntheticDataset::SyntheticDataset(const Options& options) : options_(options) {
  BRIGADE_CHECK(options.first % kChunk == 0,
                "synthetic: expected first to be a multiple of {}, got {}", kChunk, options.first);
  BRIGADE_CHECK(options.in > 0 && options.out > 0 && options.size > 0,
                "synthetic: expected positive in, out and size, got {}, {}, {}", options.in,
                options.out, options.size);
  const auto in = static_cast<double>(options.in);
  const Tensor b =
      uniform({kTeacherHidden, options.in}, std::sqrt(3.0 / in), options.seed, kTeacherB);
  // relu halves the second moment of what it is given, hence 6 instead of 3.
  const Tensor a = uniform({options.out, kTeacherHidden}, std::sqrt(6.0 / kTeacherHidden),
                           options.seed, kTeacherA);
  Tensor hidden = Tensor::empty({kChunk, kTeacherHidden});
  Tensor y = Tensor::empty({kChunk, options.out});
  inputs_.reserve(static_cast<std::size_t>(options.size * options.in));
  for (std::int64_t begin = 0; begin < options.size; begin += kChunk) {
    const auto chunk = static_cast<std::uint32_t>((options.first + begin) / kChunk);
    const Tensor x = uniform({kChunk, options.in}, std::sqrt(3.0), options.seed, kChunks + chunk);
    ops::linear(x, b, {}, hidden);
    ops::unary(UnaryOp::relu, hidden, hidden);
    ops::linear(hidden, a, {}, y);
    const std::int64_t count = std::min(kChunk, options.size - begin);
    inputs_.insert(inputs_.end(), x.data<float>(), x.data<float>() + count * options.in);
    append_targets(y.rows(0, count));
  }
}

void SyntheticDataset::append_targets(const Tensor& y) {
  const float* row = y.data<float>();
  const float* end = row + y.numel();
  if (!options_.classes) {
    values_.insert(values_.end(), row, end);
    return;
  }
  for (; row != end; row += options_.out) {
    labels_.push_back(std::max_element(row, row + options_.out) - row);
  }
}

void SyntheticDataset::read(std::span<const std::int64_t> samples, const Batch& batch) const {
  gather_rows(inputs_, options_.in, samples, batch.inputs);
  if (options_.classes) {
    gather_rows(labels_, 1, samples, batch.targets);
  } else {
    gather_rows(values_, options_.out, samples, batch.targets);
  }
}

std::unique_ptr<Dataset> synthetic(const SyntheticDataset::Options& options) {
  return std::make_unique<SyntheticDataset>(options);
}

DataSplits make_synthetic(SyntheticDataset::Options options, std::int64_t train_samples) {
  options.first = 0;
  options.size = train_samples;
  auto train = std::make_unique<SyntheticDataset>(options);
  options.first = kFirstTestSample;
  options.size = kTestSamples;
  return {"synthetic", std::move(train), std::make_unique<SyntheticDataset>(options)};
}

}  // namespace brigade::data
