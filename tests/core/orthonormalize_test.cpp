#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/ops.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace brigade {
namespace {

using test::f32;
using testing::ElementsAre;
using testing::Pointwise;

/// The largest deviation of x xᵀ from the identity.
double distance_from_orthonormal(const Tensor& x) {
  const std::int64_t rows = x.shape()[0];
  Tensor products = Tensor::empty({rows, rows});
  ops::gemm(x, ops::Trans::no, x, ops::Trans::yes, {}, products);
  double largest = 0.0;
  for (std::int64_t i = 0; i < rows * rows; ++i) {
    const double expected = i / rows == i % rows ? 1.0 : 0.0;
    largest = std::max(largest, std::abs(products.data<float>()[i] - expected));
  }
  return largest;
}

TEST(Orthonormalize, GivesTheTextbookAnswer) {
  Tensor x = f32({3, 4, 0, 1, 0, 5}, {2, 3});
  ops::orthonormalize(x);
  // (1, 0, 5) less 0.6 (0.6, 0.8, 0) is (0.64, -0.48, 5), of length sqrt(25.64).
  const double length = std::sqrt(25.64);
  EXPECT_THAT(x.to_vector<float>(),
              Pointwise(testing::FloatNear(1e-6F),
                        std::vector<float>{0.6F, 0.8F, 0, static_cast<float>(0.64 / length),
                                           static_cast<float>(-0.48 / length),
                                           static_cast<float>(5 / length)}));
}

TEST(Orthonormalize, RowsThatAreAlmostEqualStillBecomeOrthogonal) {
  Tensor x = Tensor::empty({8, 100});
  ops::uniform({.seed = 1, .sequence = 1, .low = -1.0, .high = 1.0}, x);
  for (std::int64_t i = 100; i < 800; ++i) {
    x.data<float>()[i] = x.data<float>()[i % 100] + 1e-3F * x.data<float>()[i];
  }
  ops::orthonormalize(x);
  EXPECT_LT(distance_from_orthonormal(x), 1e-6);
}

TEST(Orthonormalize, ARowInTheSpanOfOthersIsReplaced) {
  Tensor x = f32({1, 0, 0, 2, 0, 0, 0, 0, 0}, {3, 3});
  ops::orthonormalize(x);
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(1, 0, 0, 0, 1, 0, 0, 0, 1))
      << "first basis vectors outside the span";
  Tensor zero = Tensor::zeros({4, 4});
  ops::orthonormalize(zero);
  EXPECT_LT(distance_from_orthonormal(zero), 1e-6);
}

TEST(Orthonormalize, LetsNanPass) {
  Tensor x = f32({std::numeric_limits<float>::quiet_NaN(), 1, 1, 0}, {2, 2});
  ops::orthonormalize(x);
  EXPECT_TRUE(std::isnan(x.data<float>()[0]));
  EXPECT_TRUE(std::isnan(x.data<float>()[3])) << "and shows in all rows behind it";
}

TEST(Orthonormalize, RefusesMoreRowsThanColumns) {
  Tensor x = Tensor::zeros({3, 2});
  EXPECT_ERROR(ops::orthonormalize(x),
               "orthonormalize: expected no more rows than columns, got [3, 2]");
}

}  // namespace
}  // namespace brigade
