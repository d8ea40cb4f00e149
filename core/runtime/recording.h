#pragma once

#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "core/runtime/stream.h"

namespace brigade {

/// What this thread has given its compute stream of one device, to be given again without the code
/// that led to it: on the CPU a list of calls, on a GPU a CUDA graph.
class Recording {
 public:
  Recording() = default;
  virtual ~Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// All of it once more, on the thread that has recorded it. It reads and writes the same memory
  /// as the first time, which therefore must still be there (UseReservedMemory, core/runtime/context.h),
  /// and its numbers are those of the first time: a factor, a shape, whether a gradient is added.
  virtual void replay() = 0;
};

/// Executes `work` and keeps what it gives this thread's compute stream of `device`: kernels
/// through call(), other host code through repeatable(). On a GPU also what streams are given that
/// are ordered behind the compute stream meanwhile and before whose end it waits, and nothing in
/// `work` may wait for the GPU, ask for pinned memory, or be the first product of its kind and
/// shape, whose kernel is still to be chosen. Error there if something did.
std::unique_ptr<Recording> record(Device device, const std::function<void()>& work);

/// Executes `work` now and, if `s` is being recorded, at this place of every replay. What `work`
/// calls in turn is part of it. On a GPU it is not called again: there the graph holds what it has
/// enqueued.
template <class Work>
void repeatable(Stream& s, Work&& work) {
  if (s.recording()) {
    s.run(std::forward<Work>(work));
  } else {
    work();
  }
}

/// kernel(s, arguments...), to be repeated in every replay if `s` is being recorded. Kernels take
/// pointers and numbers (core/kernels.h), so keeping a call is keeping its arguments.
template <class... Params>
void call(Stream& s, void (*kernel)(Stream&, Params...),
          std::type_identity_t<Params>... arguments) {
  if (!s.recording()) {
    kernel(s, arguments...);
    return;
  }
  s.run([&s, kernel, kept = std::tuple<std::decay_t<Params>...>(arguments...)] {
    std::apply([&](const auto&... each) { kernel(s, each...); }, kept);
  });
}

}  // namespace brigade
