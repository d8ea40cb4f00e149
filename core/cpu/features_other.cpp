#include "core/cpu/features_private.h"

namespace brigade {

bool cpu_has_avx2() {
  return false;
}

bool cpu_is_amd_with_avx512() {
  return false;
}

}  // namespace brigade
