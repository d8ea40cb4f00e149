#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "core/runtime/allocator.h"
#include "core/runtime/stream.h"
#include "core/runtime/trace.h"

namespace brigade {

/// How products of f32 tensors are computed, in PyTorch's words (set_float32_matmul_precision):
///
///              GPU                CPU: one thread, fast unit, large product; else as highest
///   highest    in f32             in f32
///   high       factors as TF32    as three products of bf16 (core/cpu/gemm_in_parts.h)
///   medium     factors as bf16    factors as bf16
///
/// Attention on a GPU stays in f32. PyTorch itself takes TF32 for both words on a GPU.
enum class MatmulPrecision : std::uint8_t { highest, high, medium };

/// What one rank computes with: a compute stream and a caching allocator per device.
///
/// There is one Context per thread, not per process, because in tests ranks are threads: two of
/// them must not share a stream, nor count each other's memory. Created on first use.
class Context {
 public:
  /// This thread's context.
  static Context& current();

  /// The stream on which all operators of this thread run: its own, or that of a UseStream.
  Stream& compute_stream(Device device);

  /// Shared with the storages it serves, which may be freed on another thread or after this one has
  /// ended.
  const std::shared_ptr<CachingAllocator>& allocator(Device device);

  MemoryStats memory_stats(Device device) { return allocator(device)->stats(); }

  /// Of this thread's products of f32 tensors.
  MatmulPrecision matmul_precision() const { return matmul_precision_; }
  void set_matmul_precision(MatmulPrecision precision) { matmul_precision_ = precision; }

  /// Where this thread's TraceScopes go; null, as at first: nowhere. The log must outlive its use.
  SpanLog* span_log() const { return span_log_; }
  void set_span_log(SpanLog* log) { span_log_ = log; }
  /// Where this thread's ScopeNames go.
  ScopeNames& scope_names() { return scope_names_; }

 private:
  friend class UseStream;
  struct PerDevice {
    std::unique_ptr<Stream> stream;
    Stream* in_use = nullptr;  // `stream`, or what a UseStream has put in its place
    std::shared_ptr<CachingAllocator> allocator;
  };
  PerDevice& at(Device device);

  PerDevice cpu_;
  std::map<int, PerDevice> gpus_;
  SpanLog* span_log_ = nullptr;
  ScopeNames scope_names_;
  MatmulPrecision matmul_precision_ = MatmulPrecision::highest;
};

/// While it lives, this thread's operators on `stream`'s device are enqueued on `stream`: how an
/// all-reduce made of operators (dist/algorithms/all_reduce.h) gets onto the communication stream
/// of a GPU. Who orders the two streams orders the memory too: a tensor written in here must not be
/// given back while `stream` may still use it.
class [[nodiscard]] UseStream {
 public:
  explicit UseStream(Stream& stream);
  ~UseStream();
  UseStream(const UseStream&) = delete;
  UseStream& operator=(const UseStream&) = delete;

 private:
  Device device_;
  Stream* before_;
};

/// Short for Context::current().compute_stream(device).
Stream& compute_stream(Device device);

}  // namespace brigade
