#include "core/ops.h"
#include "core/ops_private.h"

namespace brigade::ops {
void gemm(const Tensor& a, Trans trans_a, const Tensor& b, Trans trans_b, Scale scale, Tensor& c) {
  check_alike("gemm", {{"a", a}, {"b", b}});
  check_matrix("gemm", "a", a);
  check_matrix("gemm", "b", b);
  const bool ta = trans_a == Trans::yes;
  const bool tb = trans_b == Trans::yes;
  const std::int64_t m = a.shape()[ta ? 1 : 0];
  const std::int64_t k = a.shape()[ta ? 0 : 1];
  const std::int64_t n = b.shape()[tb ? 0 : 1];
  check_shape("gemm", "b", b, tb ? Shape{n, k} : Shape{k, n});
  check_shape("gemm", "c", c, {m, n});
  launch_product("gemm", a, c, [&]<class K, class T, class F>(Stream& s) {
    K::template gemm<F>(s, {ta, tb, m, n, k, a.data<F>(), b.data<F>(), c.data<T>(), scale});
  });
}

void linear(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y, Activation activation,
            const Tensor& z) {
  check_alike("linear", {{"w", w}, {"x", x}});
  check_matrix("linear", "w", w);
  const std::int64_t out = w.shape()[0];
  const std::int64_t in = w.shape()[1];
  BRIGADE_CHECK(x.shape().rank() == 2 && x.shape()[1] == in, "linear: expected x [N, {}], got {}",
                in, x.shape());
  const std::int64_t batch = x.shape()[0];
  check_shape("linear", "y", y, {batch, out});
  if (b.defined()) {
    check_alike("linear", {{"y", y}, {"b", b, Shape{out}}});
  }
  if (activation == Activation::gelu) {
    check_same("linear", {{"y", y}, {"z", z}});
  }
  launch_product("linear", x, y, [&]<class K, class T, class F>(Stream& s) {
    K::template linear<F>(s, {batch, in, out, x.data<F>(), w.data<F>(), optional_data<T>(b),
                              activation, y.data<T>(), optional_data<T>(z)});
  });
}

void bias_backward(UnaryOp op, const Tensor& dy, const Tensor& kept, Tensor& dz, Tensor& db) {
  check_matrix("bias_backward", "dy", dy);
  check_shape("bias_backward", "kept", kept, dy.shape());
  check_same("bias_backward", {{"kept", kept}, {"dz", dz}});
  check_alike("bias_backward", {{"dy", dy}, {"db", db, Shape{dy.shape()[1]}}});
  launch_product("bias_backward", kept, db, [&]<class K, class T, class F>(Stream& s) {
    K::template bias_backward<F>(s, op, dy.shape()[0], dy.shape()[1], dy.data<T>(), kept.data<F>(),
                                 dz.data<F>(), db.data<T>());
  });
}

}  // namespace brigade::ops
