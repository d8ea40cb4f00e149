#include "core/ops.h"
#include "core/ops_private.h"

namespace brigade::ops {
namespace {

/// Of `rows`; null where undefined.
std::uint8_t* mask_of(const char* op, const Tensor& rows, const Tensor& mask) {
  if (!mask.defined()) {
    return nullptr;
  }
  BRIGADE_CHECK(mask.device() == rows.device(), op, ": expected mask on ", rows.device(), ", got ",
                mask.device());
  check_shape(op, "mask", mask, {rows.shape()[0], mask_bytes(rows.shape()[1])});
  return mask.data<std::uint8_t>();
}

}  // namespace

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
    call(s, K::template gemm<T, F>,
         {ta, tb, m, n, k, a.data<F>(), b.data<F>(), c.data<T>(), scale});
  });
}

void linear(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y, Activation activation,
            const Tensor& mask) {
  check_alike("linear", {{"x", x}, {"w", w}});
  check_matrix("linear", "w", w);
  const std::int64_t out = w.shape()[0];
  const std::int64_t in = w.shape()[1];
  BRIGADE_CHECK(x.shape().rank() == 2 && x.shape()[1] == in, "linear: expected x [N, ", in,
                "], got ", x.shape());
  const std::int64_t batch = x.shape()[0];
  check_shape("linear", "y", y, {batch, out});
  if (b.defined()) {
    check_alike("linear", {{"y", y}, {"b", b}});
    check_shape("linear", "b", b, {out});
  }
  BRIGADE_CHECK(!mask.defined() || activation == Activation::relu,
                "linear: expected no mask without ReLU");
  launch_product("linear", x, y, [&]<class K, class T, class F>(Stream& s) {
    BRIGADE_CHECK(K::kMasksInputGradient || !mask.defined(), "linear: expected no mask on ",
                  y.device(), "; use empty_relu_mask");
    const T* bias = b.defined() ? b.data<T>() : nullptr;
    call(s, K::template linear<T, F>,
         {batch, in, out, x.data<F>(), w.data<F>(), bias, activation, y.data<T>(),
          mask_of("linear", y, mask)});
  });
}

Tensor empty_relu_mask(const Tensor& y) {
  check_matrix("empty_relu_mask", "y", y);
  const bool masks = y.dtype() == DType::f32 &&
                     dispatch(y.device(), []<class K>(K) { return K::kMasksInputGradient; });
  return masks ? Tensor::empty({y.shape()[0], mask_bytes(y.shape()[1])}, DType::u8, y.device())
               : Tensor();
}

void linear_input_backward(const Tensor& dz, const Tensor& w, const Tensor& x, const Tensor& mask,
                           Tensor& dx) {
  const char* op = "linear_input_backward";
  check_alike(op, {{"dz", dz}, {"w", w}});
  check_matrix(op, "dz", dz);
  check_matrix(op, "w", w);
  const std::int64_t batch = dz.shape()[0];
  const std::int64_t out = dz.shape()[1];
  const std::int64_t in = w.shape()[1];
  check_shape(op, "w", w, {out, in});
  check_alike(op, {{"x", x}, {"dx", dx}});
  check_shape(op, "x", x, {batch, in});
  check_shape(op, "dx", dx, {batch, in});
  launch_product(op, dz, dx, [&]<class K, class T, class F>(Stream& s) {
    call(s, K::template linear_input_backward<T, F>,
         {batch, in, out, dz.data<F>(), w.data<F>(), x.data<T>(), mask_of(op, x, mask),
          dx.data<T>()});
  });
}

void linear_weight_backward(const Tensor& dz, const Tensor& x, Scale dw_scale, Tensor& dw,
                            Scale db_scale, Tensor& db) {
  const char* op = "linear_weight_backward";
  check_alike(op, {{"dz", dz}, {"x", x}, {"dw", dw}, {"db", db}});
  check_matrix(op, "dz", dz);
  const std::int64_t batch = dz.shape()[0];
  const std::int64_t out = dz.shape()[1];
  BRIGADE_CHECK(x.shape().rank() == 2 && x.shape()[0] == batch, op, ": expected x [", batch,
                ", in], got ", x.shape());
  const std::int64_t in = x.shape()[1];
  check_shape(op, "dw", dw, {out, in});
  check_shape(op, "db", db, {out});
  launch(dz, [&]<class K, class T>(Stream& s) {
    call(s, K::template linear_weight_backward<T>,
         {batch, in, out, dz.data<T>(), x.data<T>(), dw_scale, dw.data<T>(), db_scale,
          db.data<T>()});
  });
}

bool sums_bias_with_weight(const Tensor& dz) {
  return dz.dtype() == DType::f32 &&
         dispatch(dz.device(), []<class K>(K) { return K::kSumsBiasWithWeight; });
}

void column_sum(const Tensor& x, Scale scale, Tensor& sums) {
  check_alike("column_sum", {{"x", x}, {"sums", sums}});
  check_matrix("column_sum", "x", x);
  check_shape("column_sum", "sums", sums, {x.shape()[1]});
  launch(x, [&]<class K, class T>(Stream& s) {
    call(s, K::template column_sum<T>, x.shape()[0], x.shape()[1], x.data<T>(), scale,
         sums.data<T>());
  });
}

void orthonormalize(Tensor& x) {
  check_matrix("orthonormalize", "x", x);
  BRIGADE_CHECK(x.shape()[0] <= x.shape()[1],
                "orthonormalize: expected no more rows than columns, ", "got ", x.shape());
  launch(x, [&]<class K, class T>(Stream& s) {
    call(s, K::template orthonormalize<T>, x.shape()[0], x.shape()[1], x.data<T>());
  });
}

void relu(const Tensor& x, Tensor& y) {
  check_same("relu", {{"x", x}, {"y", y}});
  launch(x, [&]<class K, class T>(Stream& s) {
    call(s, K::template relu<T>, x.numel(), x.data<T>(), y.data<T>());
  });
}

void relu_backward(const Tensor& dy, const Tensor& y, Scale scale, Tensor& dx) {
  check_same("relu_backward", {{"y", y}, {"dy", dy}, {"dx", dx}});
  launch(y, [&]<class K, class T>(Stream& s) {
    call(s, K::template relu_backward<T>, y.numel(), dy.data<T>(), y.data<T>(), scale,
         dx.data<T>());
  });
}

void relu_bias_backward(const Tensor& dy, const Tensor& y, Tensor& dz, Tensor& db) {
  check_same("relu_bias_backward", {{"dy", dy}, {"y", y}, {"dz", dz}});
  check_alike("relu_bias_backward", {{"dy", dy}, {"db", db}});
  check_matrix("relu_bias_backward", "dy", dy);
  check_shape("relu_bias_backward", "db", db, {dy.shape()[1]});
  launch(y, [&]<class K, class T>(Stream& s) {
    call(s, K::template relu_bias_backward<T>, y.shape()[0], y.shape()[1], dy.data<T>(),
         y.data<T>(), dz.data<T>(), db.data<T>());
  });
}

}  // namespace brigade::ops
