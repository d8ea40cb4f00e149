#include "autograd/functions/dropout.h"

#include "autograd/node.h"
#include "core/error.h"
#include "core/ops.h"

namespace brigade::autograd {

Variable dropout(const Variable& x, double p, bool training, RandomStream stream) {
  BRIGADE_CHECK(p >= 0.0 && p < 1.0, "dropout: expected p in [0, 1), got {}", p);
  if (!training || p == 0.0) {
    return x;
  }
  const DropoutArgs args{.stream = stream, .p = p};
  Tensor y = Tensor::empty_like(x.data());
  ops::dropout(x.data(), args, {}, y);
  return record("dropout", y, x, [args](const Tensor& dy, Tensor& dx, Scale scale) {
    ops::dropout(dy, args, scale, dx);
  });
}

}  // namespace brigade::autograd
