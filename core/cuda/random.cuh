#pragma once

#include <Random123/philox.h>

#include <cstdint>

#include "core/random.h"

namespace brigade::cuda {

/// Bit for bit the words of brigade::random_block.
__device__ inline r123::Philox4x32_R<10>::ctr_type random_block(RandomStream stream,
                                                                std::uint64_t block) {
  const auto low = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  const auto high = [](std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32U); };
  return r123::Philox4x32_R<10>()({{low(block), high(block), stream.sequence, 0U}},
                                  {{low(stream.seed), high(stream.seed)}});
}

}  // namespace brigade::cuda
