#include "autograd/grad_state.h"

#include <utility>

#include "core/error.h"

namespace brigade::autograd {

GradState::GradState(const Tensor& values, std::shared_ptr<Node> producer)
    : producer_(std::move(producer)),
      shape_(values.shape()),
      dtype_(values.dtype()),
      device_(values.device()) {
  BRIGADE_CHECK(dtype_ == DType::f32 || dtype_ == DType::f64,
                "variable: only f32 and f64 can require a gradient, got {}", dtype_);
}

const Tensor& GradState::allocate_grad() {
  if (!grad_.defined()) {
    grad_ = Tensor::empty(shape_, dtype_, device_);
  }
  return grad_;
}

// Nothing is written. The first contribution of the next backward overwrites (beta = 0) instead of
// adding to zeros, which saves one pass over every gradient.
void GradState::zero_grad() {
  has_grad_ = false;
  synchronized_ = true;
  unused_ = false;
}

void GradState::set_grad(const Tensor& values) {
  allocate_grad().copy_from(values);
  has_grad_ = true;
}

void GradState::fill_with_zeros() {
  allocate_grad().zero();
  has_grad_ = true;
}

void GradState::mark_unused() {
  has_grad_ = false;
  unused_ = true;
}

void GradState::move_grad_to(const Tensor& place) {
  BRIGADE_CHECK(place.shape() == shape_ && place.dtype() == dtype_ && place.device() == device_,
                "variable '{}': expected memory for a gradient {} {} on {}, got {} {} on {}", name_,
                dtype_, shape_, device_, place.dtype(), place.shape(), place.device());
  if (has_grad_) {  // accumulated so far; it must not be lost when buckets are made in between
    place.copy_from(grad_);
  }
  grad_ = place;
  ++storage_version_;
}

void GradState::move_to(Device device) {
  grad_ = has_grad_ ? grad_.to(device) : Tensor();
  device_ = device;
  ++storage_version_;
}

}  // namespace brigade::autograd
