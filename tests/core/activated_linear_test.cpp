// The fused kernels of Linear and its activation against the plain ones: the same bits, for numbers
// and for all that is none.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/cpu/threads.h"
#include "core/ops.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace brigade {
namespace {

constexpr std::int64_t kEdgeSizes[] = {0, 1, 7, 8, 9, 17, 300};

template <class T>
class ActivatedLinear : public testing::Test {
 protected:
  static constexpr DType kType = kDTypeOf<T>;

  void SetUp() override { set_cpu_threads(1); }  // float: oneDNN, where there is one

  /// Numbers in [-1, 1), and among them NaN, infinity and both zeros.
  static Tensor values(const Shape& shape, std::uint32_t sequence) {
    Tensor x = Tensor::empty(shape, kType);
    ops::uniform({.stream = {.seed = 2, .sequence = sequence}, .low = -1.0, .high = 1.0}, x);
    const T special[] = {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(),
                         T{0}, -T{0}};
    for (std::int64_t i = sequence; i < x.numel(); i += 13) {
      x.data<T>()[i] = special[static_cast<std::size_t>(i) % 4];
    }
    return x;
  }

  static Tensor garbage(const Shape& shape) {
    Tensor x = Tensor::empty(shape, kType);
    ops::fill(std::nan(""), x);
    return x;
  }

  static void expect_same_bits(const Tensor& a, const Tensor& b) {
    const std::vector<T> left = a.to_vector<T>();
    const std::vector<T> right = b.to_vector<T>();
    ASSERT_EQ(left.size(), right.size());
    for (std::size_t i = 0; i < left.size(); ++i) {
      const bool same = (std::isnan(left[i]) && std::isnan(right[i])) ||
                        (left[i] == right[i] && std::signbit(left[i]) == std::signbit(right[i]));
      ASSERT_TRUE(same) << "element " << i << ": " << left[i] << " and " << right[i];
    }
  }
};

using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(ActivatedLinear, FloatTypes);

TYPED_TEST(ActivatedLinear, ForwardEqualsLinearAndThenTheActivation) {
  for (const std::int64_t batch : kEdgeSizes) {
    for (const std::int64_t out : kEdgeSizes) {
      for (const bool bias : {true, false}) {
        SCOPED_TRACE(testing::Message() << batch << " x " << out << ", bias " << bias);
        const Tensor x = this->values({batch, 9}, 1);
        const Tensor w = this->values({out, 9}, 200);  // mostly numbers, so that some sums are
        const Tensor b = bias ? this->values({out}, 3) : Tensor();
        Tensor z = this->garbage({batch, out});
        Tensor expected = this->garbage({batch, out});
        Tensor y = this->garbage({batch, out});
        ops::linear(x, w, b, z);
        ops::unary(UnaryOp::relu, z, expected);
        ops::linear(x, w, b, y, Activation::relu);
        this->expect_same_bits(y, expected);
        Tensor kept = this->garbage({batch, out});
        ops::unary(UnaryOp::gelu, z, expected);
        ops::linear(x, w, b, y, Activation::gelu, kept);
        this->expect_same_bits(y, expected);
        this->expect_same_bits(kept, z);
      }
    }
  }
}

TYPED_TEST(ActivatedLinear, BackwardEqualsTheActivationsAndThenColumnSum) {
  for (const UnaryOp op : {UnaryOp::relu, UnaryOp::gelu}) {
    for (const std::int64_t rows : kEdgeSizes) {
      for (const std::int64_t cols : kEdgeSizes) {
        SCOPED_TRACE(testing::Message() << rows << " x " << cols);
        const Tensor dy = this->values({rows, cols}, 1);
        const Tensor y = this->values({rows, cols}, 5);
        Tensor expected = this->garbage({rows, cols});
        Tensor expected_sums = this->garbage({cols});
        Tensor dz = this->garbage({rows, cols});
        Tensor db = this->garbage({cols});
        ops::unary_backward(op, dy, y, {}, expected);
        ops::column_sum(expected, {}, expected_sums);
        ops::bias_backward(op, dy, y, dz, db);
        this->expect_same_bits(dz, expected);
        this->expect_same_bits(db, expected_sums);
        Tensor in_place = dy.clone();
        ops::unary_backward(op, in_place, y, {}, in_place);
        this->expect_same_bits(in_place, expected);
        in_place = dy.clone();
        db = this->garbage({cols});
        ops::bias_backward(op, in_place, y, in_place, db);
        this->expect_same_bits(in_place, expected);
        this->expect_same_bits(db, expected_sums);
      }
    }
  }
}

TEST(BiasBackward, RoundsWhatItHasAdded) {
  for (const UnaryOp op : {UnaryOp::relu, UnaryOp::gelu}) {
    for (const std::int64_t cols : kEdgeSizes) {
      const Tensor dy = test::numbers({33, cols}, 1);
      Tensor kept = Tensor::empty({33, cols}, DType::bf16);
      Tensor dz = Tensor::empty_like(kept);
      Tensor expected = Tensor::empty_like(kept);
      Tensor db = Tensor::empty({cols});
      Tensor sums = Tensor::empty({cols});
      ops::narrow(test::numbers({33, cols}, 5), kept);
      ops::bias_backward(op, dy, kept, dz, db);

      Tensor wide = Tensor::empty({33, cols});
      ops::widen(kept, {}, wide);
      ops::unary_backward(op, dy, wide, {}, wide);
      ops::narrow(wide, expected);
      EXPECT_EQ(dz.to_vector<BFloat16>(), expected.to_vector<BFloat16>()) << cols;
      ops::column_sum(wide, {}, sums);
      for (std::int64_t col = 0; col < cols; ++col) {
        EXPECT_NEAR(db.data<float>()[col], sums.data<float>()[col], 1e-5) << cols;
      }
    }
  }
}

TYPED_TEST(ActivatedLinear, ColumnSumEqualsALoop) {
  for (const std::int64_t cols : kEdgeSizes) {
    Tensor x = Tensor::empty({17, cols}, this->kType);
    ops::uniform({.stream = {.seed = 4}, .low = -1.0, .high = 1.0}, x);
    Tensor sums = this->garbage({cols});
    ops::column_sum(x, {.alpha = 0.5, .beta = 0.0}, sums);
    for (std::int64_t col = 0; col < cols; ++col) {
      double sum = 0.0;
      for (std::int64_t row = 0; row < 17; ++row) {
        sum += static_cast<double>(x.data<TypeParam>()[row * cols + col]);
      }
      EXPECT_NEAR(static_cast<double>(sums.data<TypeParam>()[col]), 0.5 * sum, 1e-5);
    }
  }
}

TEST(BiasBackward, RefusesOtherShapes) {
  Tensor dz = Tensor::empty({2, 3});
  Tensor db = Tensor::empty({3});
  Tensor wrong = Tensor::empty({2});
  const Tensor dy = Tensor::zeros({2, 3});
  EXPECT_ERROR(ops::bias_backward(UnaryOp::relu, dy, Tensor::zeros({3, 2}), dz, db),
               "bias_backward: expected kept [2, 3], got [3, 2]");
  EXPECT_ERROR(ops::bias_backward(UnaryOp::relu, dy, dy, dz, wrong),
               "bias_backward: expected db [3], got [2]");
}

TEST(LinearWithGelu, RefusesAnotherShapeOfZ) {
  const Tensor x = Tensor::zeros({2, 3});
  Tensor y = Tensor::empty({2, 2});
  EXPECT_ERROR(
      ops::linear(x, Tensor::zeros({2, 3}), Tensor(), y, Activation::gelu, Tensor::empty({2, 1})),
      "linear: expected z [2, 2], got [2, 1]");
}

/// Lengths around the vectors' and the eight sums' ends.
TEST(MseLoss, EqualsALoopAtEveryLength) {
  for (const std::int64_t n : kEdgeSizes) {
    Tensor x = Tensor::empty({n});
    ops::uniform({.stream = {.seed = 5}, .low = -1.0, .high = 1.0}, x);
    const Tensor target = Tensor::zeros({n});
    Tensor loss = Tensor::empty({});
    ops::mse(x, target, loss);
    double sum = 0.0;
    for (std::int64_t i = 0; i < n; ++i) {
      sum += std::pow(static_cast<double>(x.data<float>()[i]), 2.0);
    }
    EXPECT_NEAR(loss.item(), n > 0 ? sum / static_cast<double>(n) : 0.0, 1e-7) << n;
  }
}

}  // namespace
}  // namespace brigade
