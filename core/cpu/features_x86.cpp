#include "core/cpu/features_private.h"

namespace brigade {

bool cpu_has_avx2() {
  return __builtin_cpu_supports("avx2") != 0;
}

bool cpu_is_amd_with_avx512() {
  return __builtin_cpu_is("amd") != 0 && __builtin_cpu_supports("avx512f") != 0;
}

}  // namespace brigade
