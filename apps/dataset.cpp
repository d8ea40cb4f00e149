#include "apps/dataset.h"

namespace brigade::apps {

Batch load_batch(const Dataset& dataset, std::span<const std::int64_t> samples, Device device) {
  return {.inputs = dataset.inputs(samples).to(device),
          .targets = dataset.targets(samples).to(device)};
}

}  // namespace brigade::apps
