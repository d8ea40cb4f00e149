#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <string_view>
#include <thread>

#include "core/cuda/launch.h"
#include "core/runtime/context.h"
#include "core/runtime/trace.h"
#include "tests/gpu/gpu_test.h"

namespace brigade {

/// Keeps this thread's compute stream of kGpu busy until the thread says that it waits for the
/// device, for two seconds at most.
class BusyUntilWaited {
 public:
  BusyUntilWaited() {
    CUDA_CHECK(cudaLaunchHostFunc(cuda::stream_of(compute_stream(kGpu)), &watch, this));
  }
  ~BusyUntilWaited() { compute_stream(kGpu).synchronize(); }
  BusyUntilWaited(const BusyUntilWaited&) = delete;
  BusyUntilWaited& operator=(const BusyUntilWaited&) = delete;

  /// To be asked when the stream has gone on.
  bool was_waited_for() const { return waited_; }

 private:
  static void watch(void* self) {
    auto& busy = *static_cast<BusyUntilWaited*>(self);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (!busy.waited_ && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const char* name = busy.names_.innermost.load();
      busy.waited_ = name != nullptr && std::string_view(name) == kDeviceWait;
    }
  }

  const ScopeNames& names_ = Context::current().scope_names();
  bool waited_ = false;
};

}  // namespace brigade
