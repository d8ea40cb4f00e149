#pragma once

// Private to core.
#include <initializer_list>
#include <optional>
#include <type_traits>

#include "core/dispatch.h"
#include "core/runtime/context.h"
#include "core/tensor.h"

/// What the functions of ops.h share: how they check tensors, and how they find the kernel.
namespace brigade::ops {

struct Operand {
  const char* name;
  const Tensor& tensor;
  std::optional<Shape> shape = {};  ///< which it must have
};

inline void check_shape(const char* op, const char* name, const Tensor& tensor,
                        const Shape& expected) {
  BRIGADE_CHECK(tensor.shape() == expected, "{}: expected {} {}, got {}", op, name, expected,
                tensor.shape());
}

/// All defined, of one dtype and on one device: that of the first. And of their shapes, if given.
inline void check_alike(const char* op, std::initializer_list<Operand> operands) {
  const Tensor& first = operands.begin()->tensor;
  for (const auto& [name, tensor, shape] : operands) {
    BRIGADE_CHECK(tensor.defined(), "{}: {} is undefined", op, name);
    BRIGADE_CHECK(tensor.dtype() == first.dtype(), "{}: expected {} of dtype {}, got {}", op, name,
                  first.dtype(), tensor.dtype());
    BRIGADE_CHECK(tensor.device() == first.device(), "{}: expected {} on {}, got {}", op, name,
                  first.device(), tensor.device());
    check_shape(op, name, tensor, shape.value_or(tensor.shape()));
  }
}

/// check_alike, and of the first one's shape.
inline void check_same(const char* op, std::initializer_list<Operand> operands) {
  check_alike(op, operands);
  for (const auto& [name, tensor, shape] : operands) {
    check_shape(op, name, tensor, operands.begin()->tensor.shape());
  }
}

inline void check_matrix(const char* op, const char* name, const Tensor& tensor) {
  BRIGADE_CHECK(tensor.shape().rank() == 2, "{}: expected {} with 2 dimensions, got {}", op, name,
                tensor.shape());
}

/// The numbers of a tensor that may be undefined.
template <class T>
T* optional_data(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

/// fn.operator()<K, T>(stream) for the tensor's float type T and the device's kernels for it, K.
template <class Fn>
void launch(const Tensor& like, Fn&& fn) {
  Stream& stream = compute_stream(like.device());
  dispatch_float(like.dtype(), [&]<class T>() {
    dispatch(like.device(),
             [&]<class K>(K) { fn.template operator()<typename K::template For<T>, T>(stream); });
  });
}

/// fn.operator()<K, T, F>(stream) for sums in T of products of factors in F.
template <class Fn>
void launch_product(const char* op, const Tensor& factor, const Tensor& sum, Fn&& fn) {
  const bool mixed = factor.dtype() == DType::bf16;
  const DType expected = mixed ? DType::f32 : factor.dtype();
  BRIGADE_CHECK(sum.defined(), "{}: the result is undefined", op);
  BRIGADE_CHECK(sum.dtype() == expected && sum.device() == factor.device(),
                "{}: expected a result of dtype {} on {}, got {} on {}", op, expected,
                factor.device(), sum.dtype(), sum.device());
  launch(sum, [&]<class K, class T>(Stream& s) {
    if constexpr (std::is_same_v<T, float>) {
      if (mixed) {
        fn.template operator()<K, float, BFloat16>(s);
        return;
      }
    }
    fn.template operator()<K, T, T>(s);
  });
}

}  // namespace brigade::ops
