#include "autograd/functions/relu.h"

#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {

// Backward needs only y: its sign is the mask.
Variable relu(const Variable& x) {
  Tensor y = Tensor::empty_like(x.data());
  ops::relu(x.data(), y);
  return record("relu", y, x, [y](const Tensor& dy, Tensor& dx, Scale scale) {
    ops::relu_backward(dy, y, scale, dx);
  });
}

}  // namespace brigade::autograd
