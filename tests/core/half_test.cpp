#include "core/half.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/ops.h"
#include "tests/support/expect_error.h"

namespace brigade {
namespace {

using testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Whether a half or bfloat16 is one of the bit patterns that mean NaN.
bool is_nan(Half x) {
  return (x.bits & 0x7fffU) > 0x7c00U;
}
bool is_nan(BFloat16 x) {
  return (x.bits & 0x7fffU) > 0x7f80U;
}

TEST(Half, HasTheBitsOfIeeeBinary16) {
  EXPECT_EQ(to_half(0.0F).bits, 0x0000);
  EXPECT_EQ(to_half(-0.0F).bits, 0x8000);
  EXPECT_EQ(to_half(1.0F).bits, 0x3c00);
  EXPECT_EQ(to_half(-2.0F).bits, 0xc000);
  EXPECT_EQ(to_half(0.333251953125F).bits, 0x3555);
  EXPECT_EQ(to_half(65504.0F).bits, 0x7bff);
  EXPECT_EQ(to_half(0x1p-14F).bits, 0x0400) << "the least normal";
  EXPECT_EQ(to_half(0x3ffp-24F).bits, 0x03ff) << "the largest subnormal";
  EXPECT_EQ(to_half(0x1p-24F).bits, 0x0001);
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  EXPECT_EQ(to_half(1.0F + 0x1p-11F).bits, 0x3c00) << "a tie, down to even";
  EXPECT_EQ(to_half(1.0F + 0x3p-11F).bits, 0x3c02) << "a tie, up to even";
  EXPECT_EQ(to_half(1.0F + 0x1.001p-11F).bits, 0x3c01) << "just above a tie";
  EXPECT_EQ(to_half(2.0F - 0x1p-12F).bits, 0x4000) << "carries into the exponent";
  EXPECT_EQ(to_half(0x1p-25F).bits, 0x0000) << "a tie between 0 and the least subnormal";
  EXPECT_EQ(to_half(0x1.002p-25F).bits, 0x0001);
  EXPECT_EQ(to_half(0x3p-25F).bits, 0x0002) << "a tie among subnormals";
  EXPECT_EQ(to_half(0x1p-14F - 0x1p-26F).bits, 0x0400) << "from subnormal to normal";
  EXPECT_EQ(to_half(-0x1p-140F).bits, 0x8000) << "float's own subnormals vanish";
}

TEST(Half, TooLargeBecomesInfiniteAndNaNStays) {
  EXPECT_EQ(to_half(65519.996F).bits, 0x7bff);
  EXPECT_EQ(to_half(65520.0F).bits, 0x7c00) << "half a step above the largest";
  EXPECT_EQ(to_half(-1e30F).bits, 0xfc00);
  EXPECT_EQ(to_half(std::numeric_limits<float>::max()).bits, 0x7c00);
  EXPECT_EQ(to_half(-kInfinity).bits, 0xfc00);
  EXPECT_TRUE(is_nan(to_half(kNaN)));
  EXPECT_TRUE(is_nan(to_half(std::bit_cast<float>(0x7f800001U)))) << "not rounded to infinity";
}

TEST(Half, EveryPatternSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(half);
    if (is_nan(half)) {
      EXPECT_TRUE(std::isnan(wide) && is_nan(to_half(wide))) << bits;
    } else {
      // C's own arithmetic says what the pattern means.
      const int exponent = static_cast<int>((bits >> 10U) & 31U);
      const auto fraction = static_cast<double>(bits & 1023U);
      const double size = exponent == 31  ? INFINITY
                          : exponent == 0 ? std::ldexp(fraction, -24)
                                          : std::ldexp(1024.0 + fraction, exponent - 25);
      ASSERT_EQ(static_cast<double>(wide), bits < 0x8000U ? size : -size) << bits;
      ASSERT_EQ(to_half(wide), half) << bits;
    }
  }
}

TEST(Half, NoOtherHalfIsNearer) {
  // Every 4099th float (a prime, so that all low bits occur), against its two neighbours in half.
  for (std::uint64_t bits = 0; bits < 0x7f800000U; bits += 4099) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const Half half = to_half(x);
    if (x >= 65520.0F) {
      ASSERT_EQ(half.bits, 0x7c00) << x;
      continue;
    }
    const double distance = std::abs(static_cast<double>(to_float(half)) - static_cast<double>(x));
    for (const int step : {-1, 1}) {
      const int neighbour = half.bits + step;
      if (neighbour >= 0 && neighbour < 0x7c00) {
        const Half other{static_cast<std::uint16_t>(neighbour)};
        const double theirs =
            std::abs(static_cast<double>(to_float(other)) - static_cast<double>(x));
        ASSERT_TRUE(distance < theirs || (distance == theirs && half.bits % 2 == 0)) << x;
      }
    }
  }
}

TEST(BFloat16, IsTheUpperHalfOfAFloatRounded) {
  EXPECT_EQ(to_bfloat16(1.0F).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(-2.0F).bits, 0xc000);
  EXPECT_EQ(to_bfloat16(1.0F + 0x1p-8F).bits, 0x3f80) << "a tie, down to even";
  EXPECT_EQ(to_bfloat16(1.0F + 0x3p-8F).bits, 0x3f82) << "a tie, up to even";
  EXPECT_EQ(to_bfloat16(1.0F + 0x1.01p-8F).bits, 0x3f81);
  EXPECT_EQ(to_bfloat16(0x1p-149F).bits, 0x0000);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x00018000U)).bits, 0x0002) << "a tie of subnormals";
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80) << "infinite";
  EXPECT_EQ(to_bfloat16(-kInfinity).bits, 0xff80);
  EXPECT_TRUE(is_nan(to_bfloat16(kNaN)));
  EXPECT_TRUE(is_nan(to_bfloat16(std::bit_cast<float>(0x7f800001U)))) << "not infinite";
  EXPECT_TRUE(is_nan(to_bfloat16(std::bit_cast<float>(0xffffffffU)))) << "no carry into the sign";
}

TEST(BFloat16, WideningIsExact) {
  EXPECT_EQ(to_float(BFloat16{0x3f80}), 1.0F);
  EXPECT_EQ(to_float(BFloat16{0x0001}), 0x1p-133F);
  EXPECT_EQ(to_float(BFloat16{0xff80}), -kInfinity);
  EXPECT_TRUE(std::isnan(to_float(BFloat16{0x7fff})));
}

TEST(Narrow, WritesSixteenBitsOfEachKind) {
  const Tensor x = Tensor::from(std::vector<float>{1.0F, -0.1F, 70000.0F}, {3});
  Tensor half = Tensor::empty({3}, DType::f16);
  Tensor brain = Tensor::empty({3}, DType::bf16);
  EXPECT_EQ(half.nbytes(), 6U);
  ops::narrow(x, half);
  ops::narrow(x, brain);
  EXPECT_THAT(half.to_vector<Half>(), ElementsAre(Half{0x3c00}, Half{0xae66}, Half{0x7c00}));
  EXPECT_THAT(brain.to_vector<BFloat16>(),
              ElementsAre(BFloat16{0x3f80}, BFloat16{0xbdcd}, BFloat16{0x4789}));
}

TEST(Widen, MeetsItsDestinationByTheScale) {
  const Tensor x = Tensor::from(std::vector<Half>{{0x3c00}, {0xc000}}, {2});
  Tensor y = Tensor::from(std::vector<float>{kNaN, kNaN}, {2});
  ops::widen(x, {}, y);
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(1, -2));
  ops::widen(x, {.alpha = 3.0, .beta = 1.0}, y);
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(4, -8));
}

TEST(Narrow, RefusesOtherTypesAndShapes) {
  const Tensor x = Tensor::zeros({3});
  Tensor half = Tensor::zeros({2}, DType::f16);
  EXPECT_ERROR(ops::narrow(x, half), "narrow: expected y [3], got [2]");
  Tensor wide = Tensor::zeros({3});
  EXPECT_ERROR(ops::narrow(x, wide), "expected a f16 or bf16 tensor, got f32");
  EXPECT_ERROR(ops::widen(half, {}, half), "tensor: expected dtype f32, got f16");
}

}  // namespace
}  // namespace brigade
