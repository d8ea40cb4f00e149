#include "autograd/functions/linear_private.h"

#include "core/error.h"

namespace brigade::autograd {

Tensor rows_of(const Tensor& x) {
  const std::size_t last = x.shape().rank() - 1;
  return x.reshape({x.shape().with_extent(last, 1).numel(), x.shape()[last]});
}

Tensor empty_output(const Tensor& x, const Tensor& w) {
  BRIGADE_CHECK(x.shape().rank() > 0 && w.shape().rank() == 2,
                "linear: expected x [..., in] and w [out, in], got {} and {}", x.shape(),
                w.shape());
  return Tensor::empty_like(x, x.shape().with_extent(x.shape().rank() - 1, w.shape()[0]));
}

}  // namespace brigade::autograd
