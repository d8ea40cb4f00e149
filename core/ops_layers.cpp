#include "core/ops.h"
#include "core/ops_private.h"

namespace brigade::ops {
namespace {

/// The i-th matrix in the last two dimensions.
Tensor matrix_of(const Tensor& x, std::int64_t i) {
  const std::size_t rank = x.shape().rank();
  const Shape shape{x.shape()[rank - 2], x.shape()[rank - 1]};
  return x.flat_view(i * shape.numel(), shape);
}

Shape without_last(const Shape& shape, std::size_t count) {
  return Shape(shape.extents().first(shape.rank() - count));
}

/// `rows`: w's, one per index.
EmbeddingSize embedding_size(const Tensor& indices, const Tensor& w, const Tensor& rows) {
  BRIGADE_CHECK(indices.defined() && indices.dtype() == DType::i64,
                "embedding: expected indices of dtype i64, got {}", indices.dtype());
  BRIGADE_CHECK(indices.device() == w.device(), "embedding: expected indices on {}, got {}",
                w.device(), indices.device());
  check_alike("embedding",
              {{"weight", w}, {"y", rows, embedding_shape(indices.shape(), w.shape())}});
  return {.count = indices.numel(), .vocabulary = w.shape()[0], .width = w.shape()[1]};
}

/// [rows, cols]
Shape rows_of_norm(const Tensor& x, const Tensor& mean, const Tensor& rstd) {
  BRIGADE_CHECK(x.shape().rank() > 0, "layer_norm: expected x [..., D], got {}", x.shape());
  const Shape rows = without_last(x.shape(), 1);
  check_alike("layer_norm", {{"x", x}, {"mean", mean, rows}, {"rstd", rstd, rows}});
  return {rows.numel(), x.shape()[rows.rank()]};
}

/// `vector` is [D] or undefined.
void check_parameter(const char* name, const Tensor& vector, const Tensor& x, std::int64_t cols) {
  if (vector.defined()) {
    BRIGADE_CHECK(vector.numel() == cols, "layer_norm: expected x [..., {}], as wide as {}, got {}",
                  vector.numel(), name, x.shape());
    check_alike("layer_norm", {{name, vector, Shape{cols}}, {"x", x}});
  }
}

}  // namespace

void matmul(const Tensor& a, Trans trans_a, const Tensor& b, Trans trans_b, Scale scale,
            Tensor& c) {
  check_alike("matmul", {{"a", a}, {"b", b}, {"c", c}});
  const std::size_t rank = c.shape().rank();
  BRIGADE_CHECK(rank >= 2 && a.shape().rank() == rank && b.shape().rank() == rank,
                "matmul: expected a, b and c of one rank, at least 2, got {}, {} and {}", a.shape(),
                b.shape(), c.shape());
  const Shape batch = without_last(c.shape(), 2);
  BRIGADE_CHECK(without_last(a.shape(), 2) == batch && without_last(b.shape(), 2) == batch,
                "matmul: expected a and b with the leading dimensions {}, got {} and {}", batch,
                a.shape(), b.shape());
  for (std::int64_t i = 0; i < batch.numel(); ++i) {
    Tensor product = matrix_of(c, i);
    gemm(matrix_of(a, i), trans_a, matrix_of(b, i), trans_b, scale, product);
  }
}

Shape embedding_shape(const Shape& indices, const Shape& w) {
  BRIGADE_CHECK(w.rank() == 2, "embedding: expected weight [V, D], got {}", w);
  std::vector<std::int64_t> extents(indices.extents().begin(), indices.extents().end());
  extents.push_back(w[1]);
  return Shape(extents);
}

void embedding(const Tensor& indices, const Tensor& w, Tensor& y) {
  const EmbeddingSize size = embedding_size(indices, w, y);
  launch(w, [&]<class K, class T>(Stream& s) {
    K::embedding(s, size, indices.data<std::int64_t>(), w.data<T>(), y.data<T>());
  });
}

void embedding_backward(const Tensor& indices, const Tensor& dy, Scale scale, Tensor& dw) {
  const EmbeddingSize size = embedding_size(indices, dw, dy);
  scale_in_place(scale.beta, dw);
  launch(dw, [&]<class K, class T>(Stream& s) {
    K::embedding_backward(s, size, indices.data<std::int64_t>(), dy.data<T>(),
                          static_cast<T>(scale.alpha), dw.data<T>());
  });
}

void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps, Tensor& y,
                Tensor& mean, Tensor& rstd) {
  const Shape rows = rows_of_norm(x, mean, rstd);
  check_same("layer_norm", {{"x", x}, {"y", y}});
  check_parameter("weight", weight, x, rows[1]);
  check_parameter("bias", bias, x, rows[1]);
  launch(x, [&]<class K, class T>(Stream& s) {
    K::layer_norm(s, {rows[0], rows[1], x.data<T>(), optional_data<T>(weight),
                      optional_data<T>(bias), eps, y.data<T>(), mean.data<T>(), rstd.data<T>()});
  });
}

void layer_norm_weight_backward(const Tensor& dy, const Tensor& x, const Tensor& mean,
                                const Tensor& rstd, Scale scale, Tensor& dw) {
  const Shape rows = rows_of_norm(x, mean, rstd);
  check_same("layer_norm", {{"x", x}, {"dy", dy}});
  check_alike("layer_norm", {{"x", x}, {"dw", dw, Shape{rows[1]}}});
  launch(x, [&]<class K, class T>(Stream& s) {
    K::layer_norm_weight_backward(
        s, {rows[0], rows[1], dy.data<T>(), x.data<T>(), nullptr, mean.data<T>(), rstd.data<T>()},
        scale, dw.data<T>());
  });
}

void layer_norm_input_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                               const Tensor& mean, const Tensor& rstd, Scale scale, Tensor& dx) {
  const Shape rows = rows_of_norm(x, mean, rstd);
  check_same("layer_norm", {{"x", x}, {"dy", dy}, {"dx", dx}});
  check_parameter("weight", weight, x, rows[1]);
  launch(x, [&]<class K, class T>(Stream& s) {
    K::layer_norm_input_backward(s,
                                 {rows[0], rows[1], dy.data<T>(), x.data<T>(),
                                  optional_data<T>(weight), mean.data<T>(), rstd.data<T>()},
                                 scale, dx.data<T>());
  });
}

void dropout(const Tensor& x, DropoutArgs args, Scale scale, Tensor& y) {
  check_same("dropout", {{"x", x}, {"y", y}});
  launch(x, [&]<class K, class T>(Stream& s) {
    K::dropout(s, x.numel(), args, x.data<T>(), scale, y.data<T>());
  });
}

}  // namespace brigade::ops
