#include "core/device.h"

#include <ostream>

namespace brigade {

std::ostream& operator<<(std::ostream& out, const Device& device) {
  if (device.is_cuda()) {
    return out << "cuda:" << device.index;
  }
  return out << "cpu";
}

}  // namespace brigade
