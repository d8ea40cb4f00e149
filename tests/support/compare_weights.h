#pragma once

#include <filesystem>

namespace brigade {

/// ‖a - b‖ / ‖b‖ over all float32 tensors of two .safetensors files taken together, in double.
/// Error naming the tensor if the files differ in names, shapes or types, in whatever order they
/// list them.
double relative_l2(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace brigade
