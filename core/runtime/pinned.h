#pragma once

#include "core/tensor.h"

namespace brigade {

/// Uninitialised host memory that GPUs copy from and to at full speed and without the host's help,
/// because its pages cannot be moved. A copy from it or to it is still in flight when copy_from()
/// returns: an event recorded behind it tells when the memory may be written again, or read. Error
/// in builds without CUDA.
Tensor empty_pinned(const Shape& shape, DType dtype);

}  // namespace brigade
