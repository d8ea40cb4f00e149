#include <limits>

#include "core/ops.h"
#include "tests/gpu/gpu_test.h"

namespace brigade {
namespace {

template <class T>
class ReduceOnGpu : public KernelTest<T> {
 protected:
  /// Few and many outputs, in rows and in columns; the last three are cut into shares.
  static constexpr ReduceShape kShapes[] = {
      {.outer = 1, .n = 1, .inner = 1},     {.outer = 0, .n = 3, .inner = 2},
      {.outer = 1, .n = 1000, .inner = 1},  {.outer = 300, .n = 10, .inner = 1},
      {.outer = 7, .n = 257, .inner = 1},   {.outer = 1, .n = 33, .inner = 300},
      {.outer = 5, .n = 3, .inner = 2},     {.outer = 9, .n = 40, .inner = 31},
      {.outer = 1, .n = 70000, .inner = 1}, {.outer = 2, .n = 9001, .inner = 3},
      {.outer = 3, .n = 20000, .inner = 1}};

  static Tensor x_of(ReduceShape shape) {
    return KernelTest<T>::numbers({shape.outer, shape.n, shape.inner}, 1);
  }
  static Tensor no_index(ReduceShape shape) {
    const auto count = static_cast<std::size_t>(shape.outputs());
    return Tensor::from(std::vector<std::int64_t>(count, -7), {shape.outputs()});
  }
};
TYPED_TEST_SUITE(ReduceOnGpu, FloatTypes);

TYPED_TEST(ReduceOnGpu, SumEqualsTheCpu) {
  for (const ReduceShape shape : this->kShapes) {
    for (const double beta : {0.0, 1.0}) {
      const Shape outputs{shape.outputs()};
      const Tensor y = beta == 0.0 ? this->garbage(outputs) : this->numbers(outputs, 2);
      this->expect_same(
          {this->x_of(shape), y},
          [&](Tensors& t) { ops::reduce_sum(t[0], shape, {.alpha = 0.5, .beta = beta}, t[1]); },
          static_cast<double>(shape.n + 1) * this->kTolerance);
    }
  }
}

TYPED_TEST(ReduceOnGpu, SumOfNothingIsZero) {
  this->expect_same({this->garbage({0, 3}), this->garbage({3})}, [](Tensors& t) {
    ops::reduce_sum(t[0], {.outer = 1, .n = 0, .inner = 3}, {}, t[1]);
  });
}

TYPED_TEST(ReduceOnGpu, SumHasTheSameBitsEachTime) {
  for (const ReduceShape shape : this->kShapes) {
    const Tensor x = this->x_of(shape).to(kGpu);
    Tensor first = Tensor::empty({shape.outputs()}, this->kType, kGpu);
    Tensor second = Tensor::empty_like(first);
    ops::reduce_sum(x, shape, {}, first);
    ops::reduce_sum(x, shape, {}, second);
    EXPECT_EQ(first.template to_vector<TypeParam>(), second.template to_vector<TypeParam>());
  }
}

TYPED_TEST(ReduceOnGpu, MaxAndItsIndexEqualTheCpu) {
  for (const ReduceShape shape : this->kShapes) {
    Tensor x = this->x_of(shape);
    for (std::int64_t i = 0; i < x.numel(); i += 3) {  // equal values
      x.template data<TypeParam>()[i] = TypeParam{1};
    }
    this->expect_same({x, this->garbage({shape.outputs()}), this->no_index(shape)},
                      [&](Tensors& t) { ops::reduce_max(t[0], shape, t[1], t[2]); });
  }
}

TYPED_TEST(ReduceOnGpu, MaxIsTheFirstNan) {
  const ReduceShape shape{.outer = 1, .n = 70000, .inner = 1};
  Tensor x = this->x_of(shape);
  x.template data<TypeParam>()[66000] = std::numeric_limits<TypeParam>::quiet_NaN();
  x.template data<TypeParam>()[40001] = std::numeric_limits<TypeParam>::quiet_NaN();
  this->expect_same({x, this->garbage({1}), this->no_index(shape)},
                    [&](Tensors& t) { ops::reduce_max(t[0], shape, t[1], t[2]); });
}

TYPED_TEST(ReduceOnGpu, BackwardEqualsTheCpu) {
  for (const ReduceShape shape : this->kShapes) {
    for (const double beta : {0.0, 1.0}) {
      const Shape in{shape.outer, shape.n, shape.inner};
      const Tensor dx = beta == 0.0 ? this->garbage(in) : this->numbers(in, 3);
      std::vector<std::int64_t> index(static_cast<std::size_t>(shape.outputs()));
      for (std::size_t i = 0; i < index.size(); ++i) {
        index[i] = static_cast<std::int64_t>(i) * 5 % shape.n;
      }
      this->expect_same(
          {this->numbers({shape.outputs()}, 2), dx, dx, Tensor::from(index, {shape.outputs()})},
          [&](Tensors& t) {
            const Scale scale{.alpha = 0.5, .beta = beta};
            ops::reduce_backward(t[0], Tensor(), shape, scale, t[1]);
            ops::reduce_backward(t[0], t[3], shape, scale, t[2]);
          });
    }
  }
}

}  // namespace
}  // namespace brigade
