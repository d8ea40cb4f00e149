#include "nn/data/loader.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace brigade::data {
namespace {

const Dataset& checked(const std::shared_ptr<const Dataset>& dataset) {
  BRIGADE_CHECK(dataset != nullptr, "Loader: expected a data set, got a null pointer");
  return *dataset;
}

}  // namespace

Loader::Loader(std::shared_ptr<const Dataset> dataset, const BatchGeometry& geometry, Device device,
               const LoaderOptions& options)
    : dataset_(std::move(dataset)),
      sampler_(checked(dataset_).size(), geometry, options.seed, options.shuffle, options.uneven),
      batches_(*dataset_, sampler_, device, device.is_cuda() ? Prefetch::on : Prefetch::off) {}

Loader::Epoch Loader::epoch(std::int64_t epoch) {
  BRIGADE_CHECK(epoch >= 0, "Loader: expected an epoch from 0 up, got {}", epoch);
  const std::int64_t end = (epoch + 1) * size();
  return {this, std::clamp(start_, epoch * size(), end), end};
}

const Batch& Loader::load(std::int64_t step) {
  if (step != step_) {
    batch_ = &batches_.load(step).front();
    step_ = step;
  }
  return *batch_;
}

}  // namespace brigade::data
