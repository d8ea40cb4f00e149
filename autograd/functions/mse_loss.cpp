#include "autograd/functions/mse_loss.h"

#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {

Variable mse_loss(const Variable& x, const Tensor& target) {
  Tensor loss = Tensor::empty_like(x.data(), {});
  ops::mse(x.data(), target, loss);
  return record("mse_loss", loss, x,
                [x = x.data(), target](const Tensor& dy, Tensor& dx, Scale scale) {
                  ops::mse_backward(x, target, dy, scale, dx);
                });
}

}  // namespace brigade::autograd
