#include "core/tensor.h"

#include "core/dispatch.h"
#include "core/runtime/context.h"

namespace brigade {

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  return {std::make_shared<Storage>(Context::current().allocator(device), bytes), shape, dtype};
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  Tensor tensor = empty(shape, dtype, device);
  tensor.zero();
  return tensor;
}

Tensor Tensor::over(std::shared_ptr<const void> owner, std::byte* memory, const Shape& shape,
                    DType dtype, Device device) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  return {std::make_shared<Storage>(std::move(owner), memory, bytes, device), shape, dtype};
}

Tensor Tensor::from_host(const void* values, std::size_t count, DType dtype, const Shape& shape,
                         Device device) {
  BRIGADE_CHECK(static_cast<std::int64_t>(count) == shape.numel(),
                "tensor: expected {} values for shape {}, got {}", shape.numel(), shape, count);
  Tensor tensor = empty(shape, dtype, device);
  dispatch(device, [&]<class K>(K) {
    K::copy(compute_stream(device), tensor.bytes(), values, tensor.nbytes());
  });
  return tensor;
}

Tensor Tensor::reshape(const Shape& shape) const {
  BRIGADE_CHECK(shape.numel() == numel_, "reshape: {} has {} elements, {} has {}", shape_, numel_,
                shape, shape.numel());
  return flat_view(0, shape);
}

Tensor Tensor::rows(std::int64_t begin, std::int64_t count) const {
  BRIGADE_CHECK(begin >= 0 && count >= 0 && count <= shape_[0] - begin,
                "rows: {} from {} on asked of {}", count, begin, shape_);
  return flat_view(begin * shape_.with_extent(0, 1).numel(), shape_.with_extent(0, count));
}

Tensor Tensor::flat_view(std::int64_t offset, const Shape& shape) const {
  BRIGADE_CHECK(defined(), "tensor: view of an undefined tensor");
  BRIGADE_CHECK(offset >= 0 && shape.numel() <= numel_ - offset,
                "tensor: view {} at element {} asked of {} elements", shape, offset, numel_);
  Tensor view(storage_, shape, dtype_);
  view.byte_offset_ = byte_offset_ + static_cast<std::size_t>(offset) * size_of(dtype_);
  return view;
}

// Past the end of this view, but within its storage: neighbours that lie side by side, seen as one.
Tensor Tensor::spanning(std::int64_t numel) const {
  const std::size_t end = byte_offset_ + static_cast<std::size_t>(numel) * size_of(dtype_);
  BRIGADE_CHECK(numel >= 0 && end <= storage_->bytes(),
                "tensor: spanning {} elements exceeds the storage", numel);
  Tensor view(storage_, {numel}, dtype_);
  view.byte_offset_ = byte_offset_;
  return view;
}

Tensor Tensor::to(Device device) const {
  if (device == this->device()) {
    return *this;
  }
  Tensor copy = empty(shape_, dtype_, device);
  copy.copy_from(*this);
  return copy;
}

Tensor Tensor::clone() const {
  Tensor copy = empty(shape_, dtype_, device());
  copy.copy_from(*this);
  return copy;
}

void Tensor::copy_from(const Tensor& source) const {
  BRIGADE_CHECK(defined() && source.defined(), "copy: undefined tensor");
  BRIGADE_CHECK(shape_ == source.shape_ && dtype_ == source.dtype_,
                "copy: expected {} {}, got {} {}", dtype_, shape_, source.dtype_, source.shape_);
  const bool from_host = !source.device().is_cuda();
  const bool to_host = source.device().is_cuda() && !device().is_cuda();
  BRIGADE_CHECK(from_host || to_host || device() == source.device(),
                "copy: from {} to {} is not supported; go through the CPU", source.device(),
                device());
  // A GPU's copies run on its stream in either direction, behind what writes the source.
  const Device where = to_host ? source.device() : device();
  Stream& stream = compute_stream(where);
  dispatch(where, [&]<class K>(K) {
    if (to_host) {
      K::copy_to_host(stream, bytes(), source.bytes(), nbytes());
    } else {
      K::copy(stream, bytes(), source.bytes(), nbytes());
    }
  });
}

void Tensor::zero() const {
  Context::current().allocator(device())->note_zero_fill();
  dispatch(device(), [&]<class K>(K) { K::zero(compute_stream(device()), bytes(), nbytes()); });
}

void Tensor::discard() const {
  if (in_memory_stats() && !device().is_cuda()) {
    CpuKernels::discard(bytes(), nbytes());
  }
}

// Waits for the device: the values must be there when it returns.
void Tensor::copy_to_host(const void* source, void* values) const {
  dispatch(device(), [&]<class K>(K) {
    K::copy_to_host(compute_stream(device()), values, source, nbytes());
  });
}

double Tensor::item() const {
  BRIGADE_CHECK(numel_ == 1, "item: expected one element, got {}", shape_);
  if (dtype_ == DType::i64) {
    return static_cast<double>(to_vector<std::int64_t>().front());
  }
  return dispatch_float(dtype_,
                        [&]<class T>() { return static_cast<double>(to_vector<T>().front()); });
}

}  // namespace brigade
