// Products of floats and of bf16, by either library: with one thread oneDNN where the CPU suits it,
// else OpenBLAS. The reference is a plain loop in double, for large results every 31st row and the
// last.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <thread>
#include <vector>

#include "core/cpu/onednn_private.h"
#include "core/cpu/threads.h"
#include "core/ops.h"
#include "tests/support/expect_error.h"
#include "tests/support/tensors.h"

namespace brigade {
namespace {

using ops::Trans;
using test::kNaN;

/// One thread lets oneDNN in, two keep it out.
class GemmLibrary : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_cpu_threads(GetParam()); }
};

TEST(CpuThreads, AreNoMoreThanTheLibraryIsBuiltFor) {
  set_cpu_threads(1);
  const int most = max_cpu_threads();
  EXPECT_ERROR(set_cpu_threads(most + 1),
               fmt::format("threads: expected 1 to {}, which this OpenBLAS is built for, got {}",
                           most, most + 1));
  EXPECT_EQ(cpu_threads(), 1);
}

TEST(CpuThreads, OneLetsOneDnnIn) {
  if (!onednn::available()) {
    GTEST_SKIP() << "built without oneDNN, or no AVX2: here OpenBLAS computes with one thread, too";
  }
  const char* limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (limit != nullptr && std::string_view(limit) == "AVX2") {
    EXPECT_FALSE(onednn::has_avx512());
  }
  set_cpu_threads(1);
  EXPECT_THAT(blas_description(), testing::StartsWith("oneDNN "));
  set_cpu_threads(2);
  EXPECT_THAT(blas_description(), testing::StartsWith("OpenBLAS "));
}

INSTANTIATE_TEST_SUITE_P(Threads, GemmLibrary, testing::Values(1, 2));

Tensor random(const Shape& shape, std::uint64_t seed) {
  Tensor values = Tensor::empty(shape);
  ops::uniform({.stream = {.seed = seed}, .low = -1.0, .high = 1.0}, values);
  return values;
}

struct Product {
  Trans trans_a, trans_b;
  std::int64_t m, n, k;
  Scale scale;
  DType factors = DType::f32;
};

Tensor as_bf16(const Tensor& x) {
  Tensor rounded = Tensor::empty(x.shape(), DType::bf16);
  ops::narrow(x, rounded);
  return rounded;
}

/// [rows, cols] or transposed; with bf16 every number is one that bf16 has.
Tensor operand(Trans trans, std::int64_t rows, std::int64_t cols, std::uint64_t seed, DType dtype) {
  Tensor values = trans == Trans::yes ? random({cols, rows}, seed) : random({rows, cols}, seed);
  if (dtype == DType::bf16) {
    ops::widen(as_bf16(values), {}, values);
  }
  return values;
}

double at(const std::vector<float>& values, Trans trans, std::int64_t row, std::int64_t col,
          std::int64_t rows, std::int64_t cols) {
  const std::int64_t index = trans == Trans::yes ? col * rows + row : row * cols + col;
  return static_cast<double>(values[static_cast<std::size_t>(index)]);
}

void expect_right(const Product& p) {
  SCOPED_TRACE(testing::Message() << p.m << " x " << p.n << " x " << p.k << ", transposed "
                                  << (p.trans_a == Trans::yes) << (p.trans_b == Trans::yes)
                                  << ", alpha " << p.scale.alpha << ", beta " << p.scale.beta
                                  << ", " << p.factors);
  const Tensor a = operand(p.trans_a, p.m, p.k, 1, p.factors);
  const Tensor b = operand(p.trans_b, p.k, p.n, 2, p.factors);
  Tensor c = random({p.m, p.n}, 3);
  const auto before = c.to_vector<float>();
  if (p.scale.beta == 0.0) {
    ops::fill(static_cast<double>(kNaN), c);  // must not be read
  }
  if (p.factors == DType::bf16) {
    ops::gemm(as_bf16(a), p.trans_a, as_bf16(b), p.trans_b, p.scale, c);
  } else {
    ops::gemm(a, p.trans_a, b, p.trans_b, p.scale, c);
  }
  const auto as = a.to_vector<float>();
  const auto bs = b.to_vector<float>();
  const auto got = c.to_vector<float>();
  const std::int64_t step =
      p.m * p.n * p.k < 8'000'000 ? 1 : 31;  // prime, so a row of every place in the tiles
  for (std::int64_t row = (p.m - 1) % step; row < p.m; row += step) {
    for (std::int64_t col = 0; col < p.n; ++col) {
      const auto i = static_cast<std::size_t>(row * p.n + col);
      double sum = 0.0;
      for (std::int64_t j = 0; j < p.k; ++j) {
        sum += at(as, p.trans_a, row, j, p.m, p.k) * at(bs, p.trans_b, j, col, p.k, p.n);
      }
      const double expected = p.scale.alpha * sum + p.scale.beta * static_cast<double>(before[i]);
      ASSERT_NEAR(static_cast<double>(got[i]), expected, 1e-6 * static_cast<double>(p.k + 2));
    }
  }
}

TEST_P(GemmLibrary, MultipliesAllTranspositionsAndEdgeSizes) {
  for (const Trans trans_a : {Trans::no, Trans::yes}) {
    for (const Trans trans_b : {Trans::no, Trans::yes}) {
      for (const std::int64_t size : {0, 1, 7, 8, 9, 17, 64}) {
        expect_right({trans_a, trans_b, size, 9, 17, {}});
        expect_right({trans_a, trans_b, 5, size, 8, {.alpha = 0.5, .beta = 1.0}});
        expect_right({trans_a, trans_b, 33, 31, size, {.alpha = -1.0, .beta = 0.25}});
      }
    }
  }
}

TEST_P(GemmLibrary, MultipliesASmallBatchByAWideLayer) {
  for (const std::int64_t batch : {1, 3, 8, 16, 31, 32, 33, 47, 64}) {
    expect_right({Trans::no, Trans::yes, batch, 16 * batch, 19, {}});
    expect_right({Trans::no, Trans::yes, batch, 16 * batch + 5, 33, {}});
  }
}

TEST_P(GemmLibrary, AddsASmallBatchsGradientToALargeMatrix) {
  for (const std::int64_t batch : {3, 127, 128}) {
    expect_right({Trans::yes, Trans::no, 1024, 1031, batch, {.alpha = -0.5, .beta = 1.0}});
  }
}

TEST_P(GemmLibrary, MultipliesMatricesWhoseRowsAreAPowerOfTwoApart) {
  expect_right({Trans::no, Trans::no, 3, 512, 17, {}});
  for (const std::int64_t width : {256, 512}) {
    expect_right({Trans::yes, Trans::no, width, width, 128, {}});
    expect_right({Trans::yes, Trans::no, width, width, 128, {.alpha = -0.5, .beta = 1.0}});
  }
}

// Among them the widths and batches at which core/cpu/onednn.cpp and onednn_products.cpp choose
// another way.
TEST_P(GemmLibrary, MultipliesBf16OfAllTranspositionsAndSizes) {
  for (const Scale scale : {Scale{}, Scale{.alpha = -0.5, .beta = 0.25}}) {
    for (const std::int64_t batch : {1, 31, 32, 33, 64}) {
      for (const std::int64_t width : {9, 383, 384, 512, 1040}) {
        expect_right({Trans::no, Trans::yes, batch, width, 19, scale, DType::bf16});
        expect_right({Trans::no, Trans::no, batch, width, 19, scale, DType::bf16});
        expect_right({Trans::yes, Trans::no, 37, width, batch, scale, DType::bf16});
        expect_right({Trans::yes, Trans::yes, 37, width, batch, scale, DType::bf16});
      }
    }
  }
}

// With AMX core/cpu/onednn.cpp transposes a factor or the result of these.
TEST_P(GemmLibrary, MultipliesBf16OfLargeLayers) {
  const Scale scale{.alpha = -0.5, .beta = 0.25};
  for (const std::int64_t batch : {31, 32, 127, 128}) {
    expect_right({Trans::no, Trans::yes, batch, 1032, 1024, {}, DType::bf16});
    expect_right({Trans::yes, Trans::no, 1032, 1024, batch, scale, DType::bf16});
  }
}

TEST_P(GemmLibrary, AppliesTheScaleOfALongBf16SumOnce) {
  const Scale scale{.alpha = -0.5, .beta = 0.25};
  expect_right({Trans::no, Trans::no, 33, 400, 4099, scale, DType::bf16});
  expect_right({Trans::yes, Trans::no, 37, 400, 4099, scale, DType::bf16});
  expect_right({Trans::no, Trans::yes, 32, 520, 4099, {}, DType::bf16});
}

/// x Wᵀ, dx and dW of a layer from in to out, whose factors begin `offset` elements behind an
/// address that is aligned.
std::vector<std::vector<float>> layer_products(std::int64_t batch, std::int64_t in,
                                               std::int64_t out, std::int64_t offset) {
  const auto moved = [offset](const Tensor& x) {
    const Tensor memory = Tensor::empty({x.numel() + offset}, DType::bf16);
    const Tensor result = memory.flat_view(offset, x.shape());
    result.copy_from(as_bf16(x));
    return result;
  };
  const Tensor x = moved(random({batch, in}, 12));
  const Tensor w = moved(random({out, in}, 13));
  const Tensor dy = moved(random({batch, out}, 14));
  Tensor y = Tensor::empty({batch, out});
  Tensor dx = Tensor::empty({batch, in});
  Tensor dw = Tensor::empty({out, in});
  ops::gemm(x, Trans::no, w, Trans::yes, {}, y);
  ops::gemm(dy, Trans::no, w, Trans::no, {}, dx);
  ops::gemm(dy, Trans::yes, x, Trans::no, {}, dw);
  return {y.to_vector<float>(), dx.to_vector<float>(), dw.to_vector<float>()};
}

// Ranks can be threads, each thread compiles its own products, and gradient buckets put a weight's
// memory at other addresses in every mode.
TEST_P(GemmLibrary, GivesTheSameBitsOfBf16ProductsOnEveryThreadAndAtEveryAddress) {
  for (const std::int64_t batch : {32, 640}) {
    const auto here = layer_products(batch, 400, 1025, 0);
    EXPECT_EQ(layer_products(batch, 400, 1025, 1), here);
    EXPECT_EQ(layer_products(batch, 400, 1025, 16), here);
    std::thread([&] { EXPECT_EQ(layer_products(batch, 400, 1025, 0), here); }).join();
  }
}

/// tests/amx_emulator's, if this runs with it.
std::uint64_t (*amx_emulator_products())() {
  return reinterpret_cast<std::uint64_t (*)()>(dlsym(RTLD_DEFAULT, "amx_emulator_products"));
}

// Without this, products of bf16 could come from the fallback unnoticed.
TEST(Bf16Products, ComeFromTheUnitIfThereIsOne) {
  set_cpu_threads(1);
  const auto amx_products = amx_emulator_products();
  if (amx_products != nullptr) {
    ASSERT_EQ(onednn::bf16_unit(), "AMX");
  }
  if (onednn::bf16_unit().empty()) {
    GTEST_SKIP() << "no unit for bf16 that oneDNN uses: " << bf16_description();
  }
  const Tensor numbers = as_bf16(random({1025 * 1025}, 15));
  Tensor c = Tensor::empty({1025 * 1025});
  const BFloat16* factor = numbers.data<BFloat16>();
  struct Case {
    bool transpose_a, transpose_b;
    std::int64_t m, n, k = 96;
  };
  for (const auto [transpose_a, transpose_b, m, n, k] :
       {Case{false, true, 32, 512}, Case{false, true, 64, 1025}, Case{false, true, 128, 1025},
        Case{false, true, 32, 1025, 1024}, Case{false, true, 32, 1032, 1024},
        Case{false, false, 32, 384}, Case{false, false, 33, 1025}, Case{true, false, 384, 384},
        Case{true, false, 64, 64}, Case{true, false, 1025, 385},
        Case{true, false, 1025, 1024, 128}}) {
    SCOPED_TRACE(fmt::format("{} x {} x {}, transposed {} {}", m, n, k, transpose_a, transpose_b));
    const std::uint64_t before = amx_products != nullptr ? amx_products() : 0;
    EXPECT_TRUE(onednn::gemm_bf16(
        {transpose_a, transpose_b, m, n, k, factor, factor, c.data<float>(), {}}));
    if (amx_products != nullptr) {
      EXPECT_GE(amx_products() - before, static_cast<std::uint64_t>(m * n * k) / (16 * 16 * 32));
    }
  }
}

TEST_P(GemmLibrary, AddsTheBiasOfALinearLayer) {
  struct Layer {
    std::int64_t batch, out;
  };
  for (const auto [batch, out] : {Layer{5, 1}, Layer{5, 7}, Layer{5, 8}, Layer{5, 9}, Layer{5, 64},
                                  Layer{9, 147}, Layer{35, 577}}) {
    const Tensor x = random({batch, 33}, 4);
    const Tensor w = random({out, 33}, 5);
    const Tensor b = random({out}, 6);
    Tensor with = Tensor::empty({batch, out});
    Tensor without = Tensor::empty({batch, out});
    ops::linear(x, w, b, with);
    ops::linear(x, w, Tensor(), without);
    const auto bias = b.to_vector<float>();
    const auto products = without.to_vector<float>();
    const auto sums = with.to_vector<float>();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      EXPECT_NEAR(sums[i], products[i] + bias[i % bias.size()], 1e-5F);
    }
  }
}

TEST_P(GemmLibrary, PassesNaNAndInfinityOn) {
  Tensor x = random({3, 16}, 7);
  x.data<float>()[16] = kNaN;  // row 1
  x.data<float>()[32] = std::numeric_limits<float>::infinity();
  Tensor y = Tensor::empty({3, 9});
  ops::linear(x, random({9, 16}, 8), random({9}, 9), y);
  const auto values = y.to_vector<float>();
  for (std::size_t col = 0; col < 9; ++col) {
    EXPECT_TRUE(std::isfinite(values[col]));
    EXPECT_TRUE(std::isnan(values[9 + col]));
    EXPECT_TRUE(std::isinf(values[18 + col]));
  }
}

TEST_P(GemmLibrary, GivesTheSameBitsWhereverTheOperandsLie) {
  // Gradient buckets put a weight's memory at other addresses in every mode.
  constexpr std::int64_t kExtent = 48;
  const Tensor a = random({kExtent, kExtent}, 10);
  const Tensor b = random({kExtent, kExtent}, 11);
  const Tensor memory = Tensor::empty({2 * kExtent * kExtent + 64});
  for (const Trans trans_b : {Trans::yes, Trans::no}) {
    std::vector<float> first;
    for (const std::int64_t offset : {0, 1, 3, 16}) {
      Tensor moved = memory.flat_view(offset, {kExtent, kExtent});
      moved.copy_from(b);
      Tensor c = memory.flat_view(kExtent * kExtent + 16 + offset, {kExtent, kExtent});
      ops::gemm(a, Trans::no, moved, trans_b, {}, c);
      if (first.empty()) {
        first = c.to_vector<float>();
      }
      EXPECT_EQ(c.to_vector<float>(), first) << "at element " << offset;
    }
  }
}

}  // namespace
}  // namespace brigade
