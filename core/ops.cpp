#include "core/ops.h"

#include "core/ops_private.h"

namespace brigade::ops {
namespace {

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

}  // namespace

void fill(double value, Tensor& x) {
  launch(x, [&]<class K, class T>(Stream& s) {
    K::template fill<T>(s, x.numel(), static_cast<T>(value), x.data<T>());
  });
}

void axpby(const Tensor& x, Scale scale, Tensor& y) {
  check_same("axpby", {{"x", x}, {"y", y}});
  launch(x, [&]<class K, class T>(Stream& s) {
    K::template axpby<T>(s, x.numel(), x.data<T>(), scale, y.data<T>());
  });
}

void uniform(UniformArgs args, Tensor& x) {
  launch(x, [&]<class K, class T>(Stream& s) {
    K::template uniform<T>(s, x.numel(), args, x.data<T>());
  });
}

void narrow(const Tensor& x, Tensor& y) {
  check_conversion("narrow", x, y);
  dispatch_half(y.dtype(), [&]<class Narrow>() {
    dispatch(x.device(), [&]<class K>(K) {
      K::template narrow<Narrow>(compute_stream(x.device()), x.numel(), x.data<float>(),
                                 y.data<Narrow>());
    });
  });
}

void widen(const Tensor& x, Scale scale, Tensor& y) {
  check_conversion("widen", x, y);
  dispatch_half(x.dtype(), [&]<class Narrow>() {
    dispatch(x.device(), [&]<class K>(K) {
      K::template widen<Narrow>(compute_stream(x.device()), x.numel(), x.data<Narrow>(), scale,
                                y.data<float>());
    });
  });
}

void mse(const Tensor& x, const Tensor& target, Tensor& loss) {
  check_alike("mse_loss", {{"x", x}, {"target", target}, {"loss", loss}});
  check_shape("mse_loss", "target", target, x.shape());
  check_shape("mse_loss", "loss", loss, {});
  launch(x, [&]<class K, class T>(Stream& s) {
    K::template mse<T>(s, x.numel(), x.data<T>(), target.data<T>(), loss.data<T>());
  });
}

void mse_backward(const Tensor& x, const Tensor& target, const Tensor& dloss, Scale scale,
                  Tensor& dx) {
  check_alike("mse_loss", {{"x", x}, {"target", target}, {"dloss", dloss}, {"dx", dx}});
  check_shape("mse_loss", "target", target, x.shape());
  check_shape("mse_loss", "dloss", dloss, {});
  check_shape("mse_loss", "dx", dx, x.shape());
  launch(x, [&]<class K, class T>(Stream& s) {
    K::template mse_backward<T>(s, x.numel(), x.data<T>(), target.data<T>(), dloss.data<T>(), scale,
                                dx.data<T>());
  });
}

void cross_entropy(const Tensor& x, const Tensor& labels, Tensor& softmax, Tensor& loss) {
  check_alike("cross_entropy", {{"x", x}, {"softmax", softmax}, {"loss", loss}});
  check_matrix("cross_entropy", "x", x);
  check_labels("cross_entropy", x, labels);
  check_shape("cross_entropy", "softmax", softmax, x.shape());
  check_shape("cross_entropy", "loss", loss, {});
  launch(x, [&]<class K, class T>(Stream& s) {
    K::template cross_entropy<T>(s, x.shape()[0], x.shape()[1], x.data<T>(),
                                 labels.data<std::int64_t>(), softmax.data<T>(), loss.data<T>());
  });
}

void cross_entropy_backward(const Tensor& softmax, const Tensor& labels, const Tensor& dloss,
                            Scale scale, Tensor& dx) {
  check_alike("cross_entropy", {{"softmax", softmax}, {"dloss", dloss}, {"dx", dx}});
  check_matrix("cross_entropy", "softmax", softmax);
  check_labels("cross_entropy", softmax, labels);
  check_shape("cross_entropy", "dloss", dloss, {});
  check_shape("cross_entropy", "dx", dx, softmax.shape());
  launch(softmax, [&]<class K, class T>(Stream& s) {
    K::template cross_entropy_backward<T>(s, softmax.shape()[0], softmax.shape()[1],
                                          softmax.data<T>(), labels.data<std::int64_t>(),
                                          dloss.data<T>(), scale, dx.data<T>());
  });
}

void one_hot(const Tensor& labels, Tensor& y) {
  check_matrix("one_hot", "y", y);
  check_labels("one_hot", y, labels);
  launch(y, [&]<class K, class T>(Stream& s) {
    K::template one_hot<T>(s, y.shape()[0], y.shape()[1], labels.data<std::int64_t>(), y.data<T>());
  });
}

void count_correct(const Tensor& x, const Tensor& labels, Tensor& correct) {
  check_matrix("count_correct", "x", x);
  check_labels("count_correct", x, labels);
  check_alike("count_correct", {{"labels", labels}, {"correct", correct}});
  check_shape("count_correct", "correct", correct, {});
  launch(x, [&]<class K, class T>(Stream& s) {
    K::template count_correct<T>(s, x.shape()[0], x.shape()[1], x.data<T>(),
                                 labels.data<std::int64_t>(), correct.data<std::int64_t>());
  });
}

void sgd(SgdArgs args, const Tensor& g, Tensor& w, Tensor& velocity) {
  check_same("sgd", {{"w", w}, {"g", g}});
  if (velocity.defined()) {
    check_same("sgd", {{"w", w}, {"velocity", velocity}});
  }
  launch(w, [&]<class K, class T>(Stream& s) {
    K::template sgd<T>(s, w.numel(), args, g.data<T>(), w.data<T>(),
                       velocity.defined() ? velocity.data<T>() : nullptr);
  });
}

void adam(AdamArgs args, const Tensor& g, Tensor& w, Tensor& m, Tensor& v) {
  check_same("adam", {{"w", w}, {"g", g}, {"m", m}, {"v", v}});
  launch(w, [&]<class K, class T>(Stream& s) {
    K::template adam<T>(s, w.numel(), args, g.data<T>(), w.data<T>(), m.data<T>(), v.data<T>());
  });
}

void add_squares(const Tensor& x, Tensor& sum) {
  check_scalar_f64("add_squares", "sum", sum, x.device());
  launch(x, [&]<class K, class T>(Stream& s) {
    K::template add_squares<T>(s, x.numel(), x.data<T>(), sum.data<double>());
  });
}

void clip(const Tensor& squares, double max_norm, Tensor& x) {
  check_scalar_f64("clip", "squares", squares, x.device());
  launch(x, [&]<class K, class T>(Stream& s) {
    K::template clip<T>(s, x.numel(), squares.data<double>(), max_norm, x.data<T>());
  });
}

}  // namespace brigade::ops
