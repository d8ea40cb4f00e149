#include "core/ops.h"

#include <initializer_list>
#include <type_traits>

#include "core/context.h"
#include "core/dispatch.h"
#include "core/recording.h"

namespace brigade::ops {
namespace {

struct Operand {
  const char* name;
  const Tensor& tensor;
};

/// All defined, of one dtype and on one device: that of the first.
void check_alike(const char* op, std::initializer_list<Operand> operands) {
  const Tensor& first = operands.begin()->tensor;
  for (const auto& [name, tensor] : operands) {
    BRIGADE_CHECK(tensor.defined(), op, ": ", name, " is undefined");
    BRIGADE_CHECK(tensor.dtype() == first.dtype(), op, ": expected ", name, " of dtype ",
                  first.dtype(), ", got ", tensor.dtype());
    BRIGADE_CHECK(tensor.device() == first.device(), op, ": expected ", name, " on ",
                  first.device(), ", got ", tensor.device());
  }
}

void check_shape(const char* op, const char* name, const Tensor& tensor, const Shape& expected) {
  BRIGADE_CHECK(tensor.shape() == expected, op, ": expected ", name, " ", expected, ", got ",
                tensor.shape());
}

/// check_alike, and of the first one's shape.
void check_same(const char* op, std::initializer_list<Operand> operands) {
  check_alike(op, operands);
  for (const auto& [name, tensor] : operands) {
    check_shape(op, name, tensor, operands.begin()->tensor.shape());
  }
}

void check_matrix(const char* op, const char* name, const Tensor& tensor) {
  BRIGADE_CHECK(tensor.shape().rank() == 2, op, ": expected ", name, " with 2 dimensions, got ",
                tensor.shape());
}

void check_labels(const char* op, const Tensor& rows, const Tensor& labels) {
  BRIGADE_CHECK(labels.defined() && labels.dtype() == DType::i64, op,
                ": expected labels of dtype i64");
  BRIGADE_CHECK(labels.device() == rows.device(), op, ": expected labels on ", rows.device(),
                ", got ", labels.device());
  check_shape(op, "labels", labels, {rows.shape()[0]});
}

void check_scalar_f64(const char* op, const char* name, const Tensor& tensor, Device device) {
  BRIGADE_CHECK(tensor.defined() && tensor.dtype() == DType::f64 && tensor.device() == device, op,
                ": expected ", name, " of dtype f64 on ", device);
  check_shape(op, name, tensor, {});
}

/// Equally long and on one device. The dtypes are checked where they are dispatched.
void check_conversion(const char* op, const Tensor& x, const Tensor& y) {
  check_shape(op, "y", y, x.shape());
  BRIGADE_CHECK(x.device() == y.device(), op, ": expected y on ", x.device(), ", got ", y.device());
}

/// fn.operator()<K, T>(stream) for the device's kernel set and the tensor's float type.
template <class Fn>
void launch(const Tensor& like, Fn&& fn) {
  Stream& stream = compute_stream(like.device());
  dispatch_float(like.dtype(), [&]<class T>() {
    dispatch(like.device(), [&]<class K>(K) { fn.template operator()<K, T>(stream); });
  });
}

/// fn.operator()<K, T, F>(stream) for sums in T of products of factors in F.
template <class Fn>
void launch_product(const char* op, const Tensor& factor, const Tensor& sum, Fn&& fn) {
  const bool mixed = factor.dtype() == DType::bf16;
  const DType expected = mixed ? DType::f32 : factor.dtype();
  BRIGADE_CHECK(sum.defined(), op, ": the result is undefined");
  BRIGADE_CHECK(sum.dtype() == expected && sum.device() == factor.device(), op,
                ": expected a result of dtype ", expected, " on ", factor.device(), ", got ",
                sum.dtype(), " on ", sum.device());
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

}  // namespace

void fill(double value, Tensor& x) {
  launch(x, [&]<class K, class T>(Stream& s) {
    call(s, K::template fill<T>, x.numel(), static_cast<T>(value), x.data<T>());
  });
}

void axpby(const Tensor& x, Scale scale, Tensor& y) {
  check_same("axpby", {{"x", x}, {"y", y}});
  launch(x, [&]<class K, class T>(Stream& s) {
    call(s, K::template axpby<T>, x.numel(), x.data<T>(), scale, y.data<T>());
  });
}

void add(const Tensor& a, const Tensor& b, Tensor& y) {
  check_same("add", {{"a", a}, {"b", b}, {"y", y}});
  launch(a, [&]<class K, class T>(Stream& s) {
    call(s, K::template add<T>, a.numel(), a.data<T>(), b.data<T>(), y.data<T>());
  });
}

void uniform(UniformArgs args, Tensor& x) {
  launch(x, [&]<class K, class T>(Stream& s) {
    call(s, K::template uniform<T>, x.numel(), args, x.data<T>());
  });
}

void narrow(const Tensor& x, Tensor& y) {
  check_conversion("narrow", x, y);
  dispatch_half(y.dtype(), [&]<class Narrow>() {
    dispatch(x.device(), [&]<class K>(K) {
      call(compute_stream(x.device()), K::template narrow<Narrow>, x.numel(), x.data<float>(),
           y.data<Narrow>());
    });
  });
}

void widen(const Tensor& x, Scale scale, Tensor& y) {
  check_conversion("widen", x, y);
  dispatch_half(x.dtype(), [&]<class Narrow>() {
    dispatch(x.device(), [&]<class K>(K) {
      call(compute_stream(x.device()), K::template widen<Narrow>, x.numel(), x.data<Narrow>(),
           scale, y.data<float>());
    });
  });
}

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

void linear(const Tensor& x, const Tensor& w, const Tensor& b, Tensor& y, Activation activation) {
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
  launch_product("linear", x, y, [&]<class K, class T, class F>(Stream& s) {
    const T* bias = b.defined() ? b.data<T>() : nullptr;
    call(s, K::template linear<T, F>, batch, in, out, x.data<F>(), w.data<F>(), bias, activation,
         y.data<T>());
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

void mse(const Tensor& x, const Tensor& target, Tensor& loss) {
  check_alike("mse_loss", {{"x", x}, {"target", target}, {"loss", loss}});
  check_shape("mse_loss", "target", target, x.shape());
  check_shape("mse_loss", "loss", loss, {});
  launch(x, [&]<class K, class T>(Stream& s) {
    call(s, K::template mse<T>, x.numel(), x.data<T>(), target.data<T>(), loss.data<T>());
  });
}

void mse_backward(const Tensor& x, const Tensor& target, const Tensor& dloss, Scale scale,
                  Tensor& dx) {
  check_alike("mse_loss", {{"x", x}, {"target", target}, {"dloss", dloss}, {"dx", dx}});
  check_shape("mse_loss", "dx", dx, x.shape());
  launch(x, [&]<class K, class T>(Stream& s) {
    call(s, K::template mse_backward<T>, x.numel(), x.data<T>(), target.data<T>(), dloss.data<T>(),
         scale, dx.data<T>());
  });
}

void cross_entropy(const Tensor& x, const Tensor& labels, Tensor& softmax, Tensor& loss) {
  check_alike("cross_entropy", {{"x", x}, {"softmax", softmax}, {"loss", loss}});
  check_matrix("cross_entropy", "x", x);
  check_labels("cross_entropy", x, labels);
  check_shape("cross_entropy", "softmax", softmax, x.shape());
  check_shape("cross_entropy", "loss", loss, {});
  launch(x, [&]<class K, class T>(Stream& s) {
    call(s, K::template cross_entropy<T>, x.shape()[0], x.shape()[1], x.data<T>(),
         labels.data<std::int64_t>(), softmax.data<T>(), loss.data<T>());
  });
}

void cross_entropy_backward(const Tensor& softmax, const Tensor& labels, const Tensor& dloss,
                            Scale scale, Tensor& dx) {
  check_alike("cross_entropy", {{"softmax", softmax}, {"dloss", dloss}, {"dx", dx}});
  check_shape("cross_entropy", "dx", dx, softmax.shape());
  launch(softmax, [&]<class K, class T>(Stream& s) {
    call(s, K::template cross_entropy_backward<T>, softmax.shape()[0], softmax.shape()[1],
         softmax.data<T>(), labels.data<std::int64_t>(), dloss.data<T>(), scale, dx.data<T>());
  });
}

void one_hot(const Tensor& labels, Tensor& y) {
  check_matrix("one_hot", "y", y);
  check_labels("one_hot", y, labels);
  launch(y, [&]<class K, class T>(Stream& s) {
    call(s, K::template one_hot<T>, y.shape()[0], y.shape()[1], labels.data<std::int64_t>(),
         y.data<T>());
  });
}

void count_correct(const Tensor& x, const Tensor& labels, Tensor& correct) {
  check_matrix("count_correct", "x", x);
  check_labels("count_correct", x, labels);
  check_shape("count_correct", "correct", correct, {});
  launch(x, [&]<class K, class T>(Stream& s) {
    call(s, K::template count_correct<T>, x.shape()[0], x.shape()[1], x.data<T>(),
         labels.data<std::int64_t>(), correct.data<std::int64_t>());
  });
}

void sgd(SgdArgs args, const Tensor& g, Tensor& w, Tensor& velocity) {
  check_same("sgd", {{"w", w}, {"g", g}});
  if (velocity.defined()) {
    check_same("sgd", {{"w", w}, {"velocity", velocity}});
  }
  launch(w, [&]<class K, class T>(Stream& s) {
    call(s, K::template sgd<T>, w.numel(), args, g.data<T>(), w.data<T>(),
         velocity.defined() ? velocity.data<T>() : nullptr);
  });
}

void adam(AdamArgs args, const Tensor& counter, const Tensor& g, Tensor& w, Tensor& m, Tensor& v) {
  check_same("adam", {{"w", w}, {"g", g}, {"m", m}, {"v", v}});
  const double* count = nullptr;
  if (counter.defined()) {
    check_scalar_f64("adam", "counter", counter, w.device());
    count = counter.data<double>();
  }
  launch(w, [&]<class K, class T>(Stream& s) {
    call(s, K::template adam<T>, w.numel(), args, count, g.data<T>(), w.data<T>(), m.data<T>(),
         v.data<T>());
  });
}

void add_squares(const Tensor& x, Tensor& sum) {
  check_scalar_f64("add_squares", "sum", sum, x.device());
  launch(x, [&]<class K, class T>(Stream& s) {
    call(s, K::template add_squares<T>, x.numel(), x.data<T>(), sum.data<double>());
  });
}

void clip(const Tensor& squares, double max_norm, Tensor& x) {
  check_scalar_f64("clip", "squares", squares, x.device());
  launch(x, [&]<class K, class T>(Stream& s) {
    call(s, K::template clip<T>, x.numel(), squares.data<double>(), max_norm, x.data<T>());
  });
}

}  // namespace brigade::ops
