#include "nn/data/dataset.h"

namespace brigade::data {

Batch allocate_batch(const Dataset& dataset, std::int64_t samples, Device device) {
  return {
      .inputs = Tensor::empty({samples, dataset.input_width()}, dataset.inputs_dtype(), device),
      .targets = Tensor::empty(dataset.targets_shape(samples), dataset.targets_dtype(), device)};
}

Batch load_batch(const Dataset& dataset, std::span<const std::int64_t> samples, Device device) {
  const Batch batch = allocate_batch(dataset, std::ssize(samples), kCpu);
  dataset.read(samples, batch);
  return {.inputs = batch.inputs.to(device), .targets = batch.targets.to(device)};
}

}  // namespace brigade::data
