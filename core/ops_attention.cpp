#include "core/ops.h"
#include "core/ops_private.h"

namespace brigade::ops {
namespace {

/// The arguments of the kernels, or an Error.
template <class T>
AttentionArgs<T> checked(const Tensor& qkv, std::int64_t heads, DropoutArgs dropout,
                         const Tensor& y, const Tensor& log_sums) {
  const Shape shape = attention_shape(qkv.shape(), heads);
  BRIGADE_CHECK(dropout.p >= 0.0 && dropout.p < 1.0,
                "attention: expected a dropout in [0, 1), got {}", dropout.p);
  check_alike(
      "attention",
      {{"qkv", qkv}, {"y", y, shape}, {"log_sums", log_sums, Shape{shape[0], heads, shape[1]}}});
  return {shape[0],    shape[1],           heads,  shape[2] / heads, qkv.data<T>(),
          y.data<T>(), log_sums.data<T>(), dropout};
}

}  // namespace

Shape attention_shape(const Shape& qkv, std::int64_t heads) {
  BRIGADE_CHECK(heads > 0 && qkv.rank() == 3 && qkv[2] % (3 * heads) == 0,
                "attention: expected qkv [N, T, 3 W] and heads that divide W, got {} and {} heads",
                qkv, heads);
  return {qkv[0], qkv[1], qkv[2] / 3};
}

void attention(const Tensor& qkv, std::int64_t heads, DropoutArgs dropout, Tensor& y,
               Tensor& log_sums) {
  BRIGADE_CHECK(y.shape().rank() == 3 && y.shape()[2] <= heads * kWidestHead,
                "attention: expected heads of at most {} columns, got {} in {} heads", kWidestHead,
                y.shape(), heads);
  launch(qkv, [&]<class K, class T>(Stream& s) {
    K::attention(s, checked<T>(qkv, heads, dropout, y, log_sums));
  });
}

void attention_backward(const Tensor& qkv, std::int64_t heads, DropoutArgs dropout, const Tensor& y,
                        const Tensor& log_sums, const Tensor& dy, Scale scale, Tensor& dqkv) {
  check_same("attention", {{"y", y}, {"dy", dy}});
  check_same("attention", {{"qkv", qkv}, {"dqkv", dqkv}});
  launch(qkv, [&]<class K, class T>(Stream& s) {
    K::attention_backward(s, checked<T>(qkv, heads, dropout, y, log_sums), dy.data<T>(), scale,
                          dqkv.data<T>());
  });
}

}  // namespace brigade::ops
