#include "core/cpu/gemm_in_parts.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/cpu/threads.h"
#include "core/ops.h"
#include "core/random.h"
#include "core/runtime/context.h"

namespace brigade {
namespace {

using ops::Trans;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Sizes {
  std::int64_t m, n, k;
};

Tensor numbers(const Shape& shape, std::uint64_t seed) {
  Tensor x = Tensor::empty(shape);
  ops::uniform({.stream = {.seed = seed}, .low = -1.0, .high = 1.0}, x);
  return x;
}

/// Every number times a power of 2 from 2⁻³⁰ to 2³⁰, each of its own.
Tensor on_all_scales(Tensor x) {
  float* values = x.data<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    values[i] = std::ldexp(values[i], static_cast<int>(i * 37 % 61) - 30);
  }
  return x;
}

Tensor as_double(const Tensor& x, bool absolute) {
  std::vector<double> result;
  for (const float value : x.to_vector<float>()) {
    result.push_back(absolute ? std::abs(value) : value);
  }
  return Tensor::from(result, x.shape());
}

std::vector<double> product(const Tensor& a, const Tensor& b, bool absolute) {
  Tensor c = Tensor::empty({a.shape()[0], b.shape()[1]}, DType::f64);
  ops::gemm(as_double(a, absolute), Trans::no, as_double(b, absolute), Trans::no, {}, c);
  return c.to_vector<double>();
}

std::vector<float> in_parts(const Tensor& a, const Tensor& b, int parts) {
  Tensor c = Tensor::empty({a.shape()[0], b.shape()[1]});
  gemm_in_parts(Context::current().compute_stream(kCpu), parts,
                {.m = a.shape()[0],
                 .n = b.shape()[1],
                 .k = a.shape()[1],
                 .a = a.data<float>(),
                 .b = b.data<float>(),
                 .c = c.data<float>(),
                 .scale = {}});
  return c.to_vector<float>();
}

/// The largest error of a sum, relative to Σ |a b|.
double largest_error(const std::vector<float>& sums, const Tensor& a, const Tensor& b) {
  const std::vector<double> exact = product(a, b, /*absolute=*/false);
  const std::vector<double> size = product(a, b, /*absolute=*/true);
  double largest = 0.0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    largest = std::max(largest, std::abs(sums[i] - exact[i]) / size[i]);
  }
  return largest;
}

/// |error| / |c|, of all of c.
double relative_error(const std::vector<float>& sums, const Tensor& a, const Tensor& b) {
  const std::vector<double> exact = product(a, b, /*absolute=*/false);
  double error = 0.0;
  double size = 0.0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += (sums[i] - exact[i]) * (sums[i] - exact[i]);
    size += exact[i] * exact[i];
  }
  return std::sqrt(error / size);
}

double f32_error(const Tensor& a, const Tensor& b) {
  Tensor c = Tensor::empty({a.shape()[0], b.shape()[1]});
  ops::gemm(a, Trans::no, b, Trans::no, {}, c);
  return relative_error(c.to_vector<float>(), a, b);
}

class GemmInParts : public testing::Test {
 protected:
  void SetUp() override {
    set_cpu_threads(1);
    RecordProperty("unit", bf16_description());
  }
  void TearDown() override { Context::current().set_matmul_precision(MatmulPrecision::highest); }
};

TEST_F(GemmInParts, StaysWithinItsBoundOnAnyScale) {
  constexpr std::array kBound{0x1p-7, 3 * 0x1p-16, 0x1p-22};
  for (const auto& [m, n, k] : {Sizes{5, 3, 7}, Sizes{64, 48, 256}, Sizes{1, 33, 1000}}) {
    const double sum_in_f32 = static_cast<double>(k) * 0x1p-24;
    const Tensor a = numbers({m, k}, 1);
    const Tensor b = numbers({k, n}, 2);
    const Tensor wild_a = on_all_scales(a.clone());
    const Tensor wild_b = on_all_scales(b.clone());
    for (int parts = 1; parts <= 3; ++parts) {
      const double bound = kBound.at(static_cast<std::size_t>(parts - 1)) + sum_in_f32;
      EXPECT_LE(largest_error(in_parts(a, b, parts), a, b), bound) << parts << " of " << k;
      EXPECT_LE(largest_error(in_parts(wild_a, wild_b, parts), wild_a, wild_b), bound)
          << parts << " of " << k << " on all scales";
    }
  }
}

TEST_F(GemmInParts, EachPartAddsEightBits) {
  const Tensor a = numbers({64, 512}, 1);
  const Tensor b = numbers({512, 64}, 2);
  const double one = relative_error(in_parts(a, b, 1), a, b);
  const double two = relative_error(in_parts(a, b, 2), a, b);
  const double three = relative_error(in_parts(a, b, 3), a, b);
  EXPECT_LT(one, 0x1p-8);
  EXPECT_GT(one, 0x1p-11);
  EXPECT_LT(two, 0x1p-16);
  EXPECT_GT(two, 0x1p-20);
  EXPECT_LE(three, 1.5 * f32_error(a, b)) << "three parts are as exact as f32";
}

TEST_F(GemmInParts, TransposesScalesAndAddsAsGemmDoes) {
  const Scale scale{.alpha = 0.5, .beta = 2.0};
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const Tensor a = numbers(transpose_a ? Shape{700, 5} : Shape{5, 700}, 1);
      const Tensor b = numbers(transpose_b ? Shape{3, 700} : Shape{700, 3}, 2);
      const Tensor before = numbers({5, 3}, 3);
      Tensor expected = before.clone();
      ops::gemm(a, transpose_a ? Trans::yes : Trans::no, b, transpose_b ? Trans::yes : Trans::no,
                scale, expected);
      for (const int parts : {2, 3}) {
        Tensor c = before.clone();
        gemm_in_parts(Context::current().compute_stream(kCpu), parts,
                      {transpose_a, transpose_b, 5, 3, 700, a.data<float>(), b.data<float>(),
                       c.data<float>(), scale});
        const std::vector<float> result = c.to_vector<float>();
        for (std::size_t i = 0; i < result.size(); ++i) {
          EXPECT_NEAR(result[i], expected.to_vector<float>()[i], parts == 2 ? 1e-3 : 2e-5)
              << parts << " parts, transposed " << transpose_a << transpose_b;
        }
      }
    }
  }
}

TEST_F(GemmInParts, AnEmptySumIsZeroOrWhatWasThere) {
  EXPECT_TRUE(in_parts(Tensor::empty({0, 3}), numbers({3, 3}, 1), 2).empty());
  for (const double beta : {0.0, 2.0}) {
    Tensor c = Tensor::from(std::vector{beta == 0.0 ? NAN : 3.0F}, {1, 1});
    gemm_in_parts(Context::current().compute_stream(kCpu), 2,
                  {.m = 1, .n = 1, .k = 0, .c = c.data<float>(), .scale = {.beta = beta}});
    EXPECT_EQ(c.item(), 3.0 * beta);
  }
}

TEST_F(GemmInParts, WhatIsNotFiniteStaysSo) {
  const Tensor a = Tensor::from(std::vector{1.0F, kInfinity, NAN, -3.4e38F}, {4, 1});
  const Tensor one = Tensor::from(std::vector{0.5F}, {1, 1});
  for (int parts = 1; parts <= 3; ++parts) {
    const std::vector<float> c = in_parts(a, one, parts);
    EXPECT_EQ(c[0], 0.5F);
    EXPECT_FALSE(std::isfinite(c[1]));
    EXPECT_TRUE(std::isnan(c[2]));
    EXPECT_FALSE(std::isfinite(c[3])) << "rounded to bf16 it overflows";
  }
}

TEST_F(GemmInParts, HighestMultipliesFloats) {
  EXPECT_EQ(parts_of_floats(64, 64), 0);
  const Tensor a = numbers({64, 64}, 1);
  EXPECT_LT(f32_error(a, a), 1e-6);
}

/// The first number of [rows, 1] times [1, rows], by gemm and by linear: 1 + 2⁻¹² if the factors
/// stay f32, 1 if they are rounded.
std::array<double, 2> first_number(std::int64_t rows) {
  const auto count = static_cast<std::size_t>(rows);
  const Tensor a = Tensor::from(std::vector<float>(count, 1.0F + 0x1p-12F), {rows, 1});
  const Tensor one = Tensor::from(std::vector<float>(count, 1.0F), {rows, 1});
  Tensor by_gemm = Tensor::empty({rows, rows});
  Tensor by_linear = Tensor::empty({rows, rows});
  ops::gemm(a, Trans::no, one, Trans::yes, {}, by_gemm);
  ops::linear(a, one, {}, by_linear, Activation::none, {});
  return {by_gemm.to_vector<float>()[0], by_linear.to_vector<float>()[0]};
}

/// Large products are computed as the screen says, small ones stay f32.
TEST_F(GemmInParts, MediumRoundsFactorsWhereAUnitMakesThatFaster) {
  Context::current().set_matmul_precision(MatmulPrecision::medium);
  const bool has_unit = bf16_description().starts_with("bf16 by");
  EXPECT_EQ(parts_of_floats(32, 1000), has_unit ? 1 : 0);
  EXPECT_EQ(parts_of_floats(31, 1000), 0);
  EXPECT_EQ(parts_of_floats(1000, 31), 0);
  EXPECT_EQ(f32_description() == "f32 products of bf16 factors from 32 x 32 on", has_unit);
  const double large = has_unit ? 1.0 : 1.0 + 0x1p-12;
  EXPECT_THAT(first_number(32), ElementsAre(large, large));
  EXPECT_THAT(first_number(31), Each(1.0 + 0x1p-12)) << "rounding would take as long";
  set_cpu_threads(2);
  EXPECT_EQ(parts_of_floats(32, 1000), 0) << "oneDNN computes on one thread";
  set_cpu_threads(1);
}

TEST_F(GemmInParts, HighTakesThreeProductsOnlyWithAmx) {
  Context::current().set_matmul_precision(MatmulPrecision::high);
  const bool has_amx = bf16_description() == "bf16 by AMX";
  EXPECT_EQ(parts_of_floats(32, 1000), has_amx ? 2 : 0);
  EXPECT_EQ(parts_of_floats(1000, 31), 0);
}

}  // namespace
}  // namespace brigade
