#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/shape.h"
#include "core/storage.h"

namespace brigade {

/// Contiguous row-major numbers on one device: a shape over a stretch of shared Storage.
///
/// Copying a Tensor copies the handle; reshape, rows and flat_view are views of the same bytes. It
/// knows nothing of gradients (autograd/variable.h does).
class Tensor {
 public:
  /// Undefined: no storage; defined() is false.
  Tensor() = default;

  /// Uninitialised memory from this thread's allocator.
  static Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = kCpu);
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = kCpu);
  /// Of `other`'s dtype and on its device, of its shape or of `shape`.
  static Tensor empty_like(const Tensor& other) { return empty_like(other, other.shape()); }
  static Tensor empty_like(const Tensor& other, const Shape& shape) {
    return empty(shape, other.dtype(), other.device());
  }

  /// Over memory on `device` that `owner` keeps valid while it is held (Storage). `memory` must be
  /// aligned for `dtype`.
  static Tensor over(std::shared_ptr<const void> owner, std::byte* memory, const Shape& shape,
                     DType dtype, Device device = kCpu);

  /// A copy of host values.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape, Device device = kCpu) {
    return from_host(values.data(), values.size(), kDTypeOf<T>, shape, device);
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Device device = kCpu) {
    return from(std::span<const T>(values), shape, device);
  }

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  std::int64_t numel() const { return numel_; }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_ ? storage_->device() : kCpu; }
  std::size_t nbytes() const { return static_cast<std::size_t>(numel_) * size_of(dtype_); }

  /// First element, on the tensor's device. Error when T is not the dtype.
  template <class T>
  T* data() const {
    BRIGADE_CHECK(dtype_ == kDTypeOf<T>, "tensor: expected dtype {}, got {}", kDTypeOf<T>, dtype_);
    return reinterpret_cast<T*>(bytes());
  }
  std::byte* bytes() const {
    BRIGADE_CHECK(defined(), "tensor: expected memory, got an undefined tensor");
    return storage_->data() + byte_offset_;
  }
  /// Offset of the first element in its storage; with same_storage() it tells whether two views
  /// adjoin.
  std::size_t byte_offset() const { return byte_offset_; }
  /// Whether the memory is an allocator's and so part of its MemoryStats.
  bool in_memory_stats() const { return storage_->in_memory_stats(); }
  bool same_storage(const Tensor& other) const { return storage_ == other.storage_; }
  /// Whether no other tensor has a part in the memory and nobody else owns it, so that nobody sees
  /// it overwritten.
  bool holds_alone() const { return storage_.use_count() == 1 && in_memory_stats(); }

  /// Views. Errors: another number of elements; out of range.
  Tensor reshape(const Shape& shape) const;
  Tensor rows(std::int64_t begin, std::int64_t count) const;
  Tensor flat_view(std::int64_t offset, const Shape& shape) const;
  /// The first `numel` elements of the storage from this tensor's start on, beyond its own end if
  /// need be.
  Tensor spanning(std::int64_t numel) const;

  /// A copy on `device`; this tensor itself when it is there already.
  Tensor to(Device device) const;
  Tensor clone() const;
  /// Overwrites the values; shapes and dtypes must agree, and devices, unless one is the CPU. From
  /// a GPU to the host it waits, unless this memory is pinned (core/runtime/pinned.h).
  void copy_from(const Tensor& source) const;
  void zero() const;
  /// The values are not needed any more: on the CPU the system takes the pages back until they are
  /// written again. Memory of another owner, or of a GPU, stays as it is.
  void discard() const;

  /// Host copies; both wait for the device.
  template <class T>
  std::vector<T> to_vector() const {
    std::vector<T> values(static_cast<std::size_t>(numel_));
    copy_to_host(data<T>(), values.data());
    return values;
  }
  double item() const;

 private:
  Tensor(std::shared_ptr<Storage> storage, const Shape& shape, DType dtype)
      : storage_(std::move(storage)), shape_(shape), numel_(shape.numel()), dtype_(dtype) {}
  static Tensor from_host(const void* values, std::size_t count, DType dtype, const Shape& shape,
                          Device device);
  void copy_to_host(const void* source, void* values) const;

  std::shared_ptr<Storage> storage_;
  std::size_t byte_offset_ = 0;
  Shape shape_;
  std::int64_t numel_ = 0;
  DType dtype_ = DType::f32;
};

}  // namespace brigade
