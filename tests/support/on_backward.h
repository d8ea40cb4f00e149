#pragma once

#include <utility>

#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::test {

/// x itself; backward calls fn(dx) before it passes the gradient on.
template <class Fn>
autograd::Variable on_backward(const autograd::Variable& x, Fn fn) {
  return autograd::record("on_backward", x.data(), x,
                          [fn = std::move(fn)](const Tensor& dy, Tensor& dx, Scale scale) {
                            fn(dy);
                            ops::axpby(dy, scale, dx);
                          });
}

/// For on_backward: fails.
inline void fail_in_backward(const Tensor& /*grad*/) {
  throw Error("backward failed");
}

}  // namespace brigade::test
