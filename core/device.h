#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "core/format.h"

namespace brigade {

enum class DeviceType : std::uint8_t { cpu, cuda };

/// Where a tensor lives. `index` counts the GPUs this process sees; it is 0 for the CPU.
struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;

  bool is_cuda() const { return type == DeviceType::cuda; }
  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device kCpu{};

/// `cpu`, `cuda:0`.
std::ostream& operator<<(std::ostream& out, const Device& device);

/// What this process can do with GPUs.
struct CudaInfo {
  int device_count = 0;
  std::string why_not;  ///< one line when device_count is 0: built without CUDA, no driver, ...
  std::string runtime;  ///< "CUDA 13.0, cuBLAS 13.1", empty when built without CUDA
};

/// Asks the CUDA runtime once per call; never throws and needs no GPU.
CudaInfo cuda_info();

/// Name of one GPU ("NVIDIA H200") and its 16-byte UUID as hex: two ranks with one UUID share a
/// GPU.
struct GpuIdentity {
  std::string name;
  std::string uuid;
};
GpuIdentity gpu_identity(int index);

}  // namespace brigade

template <>
struct fmt::formatter<brigade::Device> : brigade::StreamFormatter {};
