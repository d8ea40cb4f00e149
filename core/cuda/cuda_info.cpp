#include "core/cuda/cuda_check.h"
#include "core/device.h"

namespace brigade {
namespace {

/// "CUDA 13.0, cuBLAS 13.1": versions of the libraries, which answer without a driver.
std::string runtime_versions() {
  int cuda = 0;
  int major = 0;
  int minor = 0;
  if (cudaRuntimeGetVersion(&cuda) != cudaSuccess ||
      cublasGetProperty(MAJOR_VERSION, &major) != CUBLAS_STATUS_SUCCESS ||
      cublasGetProperty(MINOR_VERSION, &minor) != CUBLAS_STATUS_SUCCESS) {
    return "CUDA (unknown version)";
  }
  return fmt::format("CUDA {}.{}, cuBLAS {}.{}", cuda / 1000, cuda % 1000 / 10, major, minor);
}

std::string hex(const cudaUUID_t& uuid) {
  std::string text;
  for (const char byte : uuid.bytes) {
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

}  // namespace

CudaInfo cuda_info() {
  CudaInfo info;
  info.runtime = runtime_versions();
  const cudaError_t status = cudaGetDeviceCount(&info.device_count);
  if (status != cudaSuccess) {
    static_cast<void>(
        cudaGetLastError());  // an answer, not a failure: no later call shall report it
    info.device_count = 0;
    info.why_not = fmt::format("{}: {}", cudaGetErrorName(status), cudaGetErrorString(status));
  } else if (info.device_count == 0) {
    info.why_not = "the CUDA driver sees no GPU (is CUDA_VISIBLE_DEVICES empty?)";
  }
  return info;
}

GpuIdentity gpu_identity(int index) {
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  return {.name = properties.name, .uuid = hex(properties.uuid)};
}

}  // namespace brigade
