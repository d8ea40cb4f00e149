#pragma once

namespace brigade {

/// What the CPU can do that not every CPU can. features_x86.cpp or, for other architectures,
/// features_other.cpp.
bool cpu_has_avx2();
/// AMD's Zen 4 and later.
bool cpu_is_amd_with_avx512();

}  // namespace brigade
