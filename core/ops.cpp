#include "core/ops.h"

#include <cmath>

#include "core/ops_private.h"

namespace brigade::ops {
namespace {

void check_labels(const char* op, const Tensor& rows, const Tensor& labels) {
  BRIGADE_CHECK(labels.defined() && labels.dtype() == DType::i64,
                "{}: expected labels of dtype i64", op);
  BRIGADE_CHECK(labels.device() == rows.device(), "{}: expected labels on {}, got {}", op,
                rows.device(), labels.device());
  check_shape(op, "labels", labels, {rows.shape()[0]});
}

void check_scalar_f64(const char* op, const char* name, const Tensor& tensor, Device device) {
  BRIGADE_CHECK(tensor.defined() && tensor.dtype() == DType::f64 && tensor.device() == device,
                "{}: expected {} of dtype f64 on {}", op, name, device);
  check_shape(op, name, tensor, {});
}

/// Equally long and on one device. The dtypes are checked where they are dispatched.
void check_conversion(const char* op, const Tensor& x, const Tensor& y) {
  check_shape(op, "y", y, x.shape());
  BRIGADE_CHECK(x.device() == y.device(), "{}: expected y on {}, got {}", op, x.device(),
                y.device());
}

}  // namespace

void fill(double value, Tensor& x) {
  launch(x, [&]<class K, class T>(Stream& s) {
    K::fill(s, x.numel(), static_cast<T>(value), x.data<T>());
  });
}

void axpby(const Tensor& x, Scale scale, Tensor& y) {
  check_same("axpby", {{"x", x}, {"y", y}});
  launch(x, [&]<class K, class T>(Stream& s) {
    K::axpby(s, x.numel(), x.data<T>(), scale, y.data<T>());
  });
}

void uniform(UniformArgs args, Tensor& x) {
  launch(x, [&]<class K, class T>(Stream& s) { K::uniform(s, x.numel(), args, x.data<T>()); });
}

void narrow(const Tensor& x, Tensor& y) {
  check_conversion("narrow", x, y);
  dispatch_either<Half, BFloat16>(y.dtype(), [&]<class Narrow>() {
    dispatch(x.device(), [&]<class K>(K) {
      K::narrow(compute_stream(x.device()), x.numel(), x.data<float>(), y.data<Narrow>());
    });
  });
}

void widen(const Tensor& x, Scale scale, Tensor& y) {
  check_conversion("widen", x, y);
  dispatch_either<Half, BFloat16>(x.dtype(), [&]<class Narrow>() {
    dispatch(x.device(), [&]<class K>(K) {
      K::widen(compute_stream(x.device()), x.numel(), x.data<Narrow>(), scale, y.data<float>());
    });
  });
}

void mse(const Tensor& x, const Tensor& target, Tensor& loss) {
  check_alike("mse_loss", {{"x", x}, {"target", target, x.shape()}, {"loss", loss, Shape{}}});
  launch(x, [&]<class K, class T>(Stream& s) {
    K::mse(s, x.numel(), x.data<T>(), target.data<T>(), loss.data<T>());
  });
}

void mse_backward(const Tensor& x, const Tensor& target, const Tensor& dloss, Scale scale,
                  Tensor& dx) {
  check_same("mse_loss", {{"x", x}, {"target", target}, {"dx", dx}});
  check_alike("mse_loss", {{"x", x}, {"dloss", dloss, Shape{}}});
  launch(x, [&]<class K, class T>(Stream& s) {
    K::mse_backward(s, x.numel(), x.data<T>(), target.data<T>(), dloss.data<T>(), scale,
                    dx.data<T>());
  });
}

void cross_entropy(const Tensor& x, const Tensor& labels, Tensor& softmax, Tensor& loss) {
  check_alike("cross_entropy",
              {{"x", x}, {"softmax", softmax, x.shape()}, {"loss", loss, Shape{}}});
  check_matrix("cross_entropy", "x", x);
  check_labels("cross_entropy", x, labels);
  launch(x, [&]<class K, class T>(Stream& s) {
    K::cross_entropy(s, x.shape()[0], x.shape()[1], x.data<T>(), labels.data<std::int64_t>(),
                     softmax.data<T>(), loss.data<T>());
  });
}

void cross_entropy_backward(const Tensor& softmax, const Tensor& labels, const Tensor& dloss,
                            Scale scale, Tensor& dx) {
  check_alike("cross_entropy",
              {{"softmax", softmax}, {"dloss", dloss, Shape{}}, {"dx", dx, softmax.shape()}});
  check_matrix("cross_entropy", "softmax", softmax);
  check_labels("cross_entropy", softmax, labels);
  launch(softmax, [&]<class K, class T>(Stream& s) {
    K::cross_entropy_backward(s, softmax.shape()[0], softmax.shape()[1], softmax.data<T>(),
                              labels.data<std::int64_t>(), dloss.data<T>(), scale, dx.data<T>());
  });
}

void one_hot(const Tensor& labels, Tensor& y) {
  check_matrix("one_hot", "y", y);
  check_labels("one_hot", y, labels);
  launch(y, [&]<class K, class T>(Stream& s) {
    K::one_hot(s, y.shape()[0], y.shape()[1], labels.data<std::int64_t>(), y.data<T>());
  });
}

void sgd(SgdArgs args, const Tensor& g, Tensor& w, Tensor& velocity) {
  check_same("sgd", {{"w", w}, {"g", g}});
  if (velocity.defined()) {
    check_same("sgd", {{"w", w}, {"velocity", velocity}});
  }
  launch(w, [&]<class K, class T>(Stream& s) {
    K::sgd(s, w.numel(), args, g.data<T>(), w.data<T>(), optional_data<T>(velocity));
  });
}

void adam(AdamArgs args, const Tensor& g, Tensor& w, Tensor& m, Tensor& v) {
  check_same("adam", {{"w", w}, {"g", g}, {"m", m}, {"v", v}});
  launch(w, [&]<class K, class T>(Stream& s) {
    K::adam(s, w.numel(), args, g.data<T>(), w.data<T>(), m.data<T>(), v.data<T>());
  });
}

void add_squares(const Tensor& x, Tensor& sum) {
  check_scalar_f64("add_squares", "sum", sum, x.device());
  launch(x, [&]<class K, class T>(Stream& s) {
    K::add_squares(s, x.numel(), x.data<T>(), sum.data<double>());
  });
}

// A sum of squares in f64 is finite exactly if all f32 are: the largest squared is 1e77.
bool all_finite(const Tensor& x) {
  Tensor squares = Tensor::zeros({}, DType::f64, x.device());
  add_squares(x, squares);
  return std::isfinite(squares.item());
}

void clip(const Tensor& squares, double max_norm, Tensor& x) {
  check_scalar_f64("clip", "squares", squares, x.device());
  launch(x, [&]<class K, class T>(Stream& s) {
    K::clip(s, x.numel(), squares.data<double>(), max_norm, x.data<T>());
  });
}

}  // namespace brigade::ops
