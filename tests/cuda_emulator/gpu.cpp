#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/cuda_emulator/emulator_private.h"

namespace emulator {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current = 0;

}  // namespace

cudaError_t answer(cudaError_t error) {
  last_error = error;
  return error;
}

cudaError_t refuse(cudaError_t error, const char* why) {
  std::fprintf(stderr, "emulator: %s\n", why);
  return answer(error);
}

int setting(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

int gpus() {
  const int all = setting("EMULATOR_GPUS", 1);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) {
    return all;
  }
  const std::string list = visible;
  const auto commas = static_cast<int>(std::count(list.begin(), list.end(), ','));
  return list.empty() ? 0 : std::min(all, commas + 1);
}

int current_gpu() {
  return current;
}

}  // namespace emulator

using emulator::answer;

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t last = emulator::last_error;
  emulator::last_error = cudaSuccess;
  return last;
}
const char* cudaGetErrorName(cudaError_t error) {
  thread_local std::string name;
  name = "cudaError " + std::to_string(static_cast<int>(error));
  return name.c_str();
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorNoDevice ? "there is no GPU" : "see driver_types.h";
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= emulator::gpus()) {
    return emulator::refuse(cudaErrorInvalidDevice, "cudaSetDevice: there is no such GPU");
  }
  emulator::current = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = emulator::gpus();
  return *count > 0 ? cudaSuccess : answer(cudaErrorNoDevice);
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::strcpy(properties->name, "pretended GPU");
  std::memset(&properties->uuid, device, sizeof properties->uuid);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*attribute*/, int /*device*/) {
  *value = 0;
  return cudaSuccess;
}

}  // extern "C"
