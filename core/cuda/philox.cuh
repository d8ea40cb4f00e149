#pragma once

#include <Random123/philox.h>

#include <cstdint>

/// The numbers of core/random.h in a kernel.
namespace brigade::cuda {

using Philox = r123::Philox4x32_R<10>;

/// random_block(): four words, bit for bit those of the CPU.
__device__ inline Philox::ctr_type philox_block(std::uint64_t seed, std::uint32_t sequence,
                                                std::int64_t block) {
  const auto low = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  const auto high = [](std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32U); };
  const auto counter = static_cast<std::uint64_t>(block);
  return Philox()({{low(counter), high(counter), sequence, 0U}}, {{low(seed), high(seed)}});
}

}  // namespace brigade::cuda
