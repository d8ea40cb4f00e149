#include "autograd/functions/linear.h"

#include "autograd/functions/linear_private.h"
#include "autograd/node.h"
#include "core/ops.h"

namespace brigade::autograd {

using ops::Trans;

Variable linear(const Variable& x, const Variable& w, const Variable& b) {
  const Tensor y = empty_output(x.data(), w.data());
  Tensor y_rows = rows_of(y);
  ops::linear(rows_of(x.data()), w.data(), b.defined() ? b.data() : Tensor(), y_rows);
  return record(
      "linear", y, {x, w, b}, [x = x.data(), w = w.data()](const Tensor& dy, GradWriter& grads) {
        const Tensor dy_rows = rows_of(dy);
        // dW and db, inputs 1 and 2, first: the network waits for them, while only this thread
        // waits for dx.
        grads.write(1, [&](Tensor& dw, Scale scale) {
          ops::gemm(dy_rows, Trans::yes, rows_of(x), Trans::no, scale, dw);  // dW = dyᵀ x
        });
        grads.write(2, [&](Tensor& db, Scale scale) { ops::column_sum(dy_rows, scale, db); });
        grads.write(0, [&](Tensor& dx, Scale scale) {
          Tensor dx_rows = rows_of(dx);
          ops::gemm(dy_rows, Trans::no, w, Trans::no, scale, dx_rows);  // dx = dy W
        });
      });
}

}  // namespace brigade::autograd
