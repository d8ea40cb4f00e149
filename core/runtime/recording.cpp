#include "core/runtime/recording.h"

#include "core/config.h"
#include "core/cuda/cuda_graph.h"
#include "core/runtime/context.h"

namespace brigade {
namespace {

class CallList final : public Recording {
 public:
  explicit CallList(const std::function<void()>& work) {
    Stream& stream = compute_stream(kCpu);
    stream.keep_calls(&calls_);
    try {
      work();
    } catch (...) {
      stream.keep_calls(nullptr);
      throw;
    }
    stream.keep_calls(nullptr);
  }

  void replay() override {
    for (const std::function<void()>& each : calls_) {
      each();
    }
  }

 private:
  std::vector<std::function<void()>> calls_;
};

}  // namespace

std::unique_ptr<Recording> record(Device device, const std::function<void()>& work) {
  if constexpr (kHasCuda) {
    if (device.is_cuda()) {
      return record_cuda_graph(device, work);
    }
  }
  return std::make_unique<CallList>(work);
}

}  // namespace brigade
