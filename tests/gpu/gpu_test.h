#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/ops.h"
#include "core/tensor.h"

namespace brigade {

inline constexpr Device kGpu{DeviceType::cuda, 0};

/// Sizes around what kernels get wrong: nothing, one element, less than a warp, no multiple of a
/// block, and more elements than 256 blocks of 256 threads.
inline constexpr std::int64_t kSizes[] = {0, 1, 3, 1000, 65537};

/// Skips, with the reason, where there is no GPU.
class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const CudaInfo info = cuda_info(); info.device_count == 0) {
      GTEST_SKIP() << "no usable GPU: " << info.why_not;
    }
  }
};

using Tensors = std::vector<Tensor>;

/// Tests of kernels on numbers of type T.
template <class T>
class KernelTest : public GpuTest {
 protected:
  static constexpr DType kType = kDTypeOf<T>;
  static constexpr double kTolerance = kType == DType::f32 ? 2e-6 : 1e-14;

  /// CPU numbers in [-1, 1), others for each `sequence`.
  static Tensor numbers(const Shape& shape, std::uint32_t sequence) {
    Tensor x = Tensor::empty(shape, kType);
    ops::uniform({.stream = {.seed = 1, .sequence = sequence}, .low = -1.0, .high = 1.0}, x);
    return x;
  }

  /// A CPU tensor full of NaN.
  static Tensor garbage(const Shape& shape) {
    Tensor x = Tensor::empty(shape, kType);
    ops::fill(std::nan(""), x);
    return x;
  }

  static Tensor labels(std::int64_t rows, std::int64_t classes) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(rows));
    for (std::int64_t row = 0; row < rows; ++row) {
      values[static_cast<std::size_t>(row)] = row * 7 % classes;
    }
    return Tensor::from(values, {rows});
  }

  /// Runs `function` on copies of `inputs` (CPU tensors), once on the CPU and once on the GPU, and
  /// expects all tensors to be equal afterwards up to `tolerance`, relative to numbers of size 1.
  static void expect_same(const Tensors& inputs, const std::function<void(Tensors&)>& function,
                          double tolerance = kTolerance) {
    Tensors on_cpu;
    Tensors on_gpu;
    for (const Tensor& input : inputs) {
      on_cpu.push_back(input.clone());
      on_gpu.push_back(input.to(kGpu));
    }
    function(on_cpu);
    function(on_gpu);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      expect_near(on_cpu[i], on_gpu[i], tolerance, i);
    }
  }

 private:
  static void expect_near(const Tensor& expected, const Tensor& actual, double tolerance,
                          std::size_t argument) {
    if (expected.dtype() == DType::i64) {
      EXPECT_EQ(expected.to_vector<std::int64_t>(), actual.to_vector<std::int64_t>());
      return;
    }
    const std::vector<T> want = expected.to_vector<T>();
    const std::vector<T> got = actual.to_vector<T>();
    for (std::size_t i = 0; i < want.size(); ++i) {
      const auto a = static_cast<double>(want[i]);
      const auto b = static_cast<double>(got[i]);
      const bool same =
          (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * (1.0 + std::abs(a));
      ASSERT_TRUE(same) << "tensor " << argument << " " << expected.shape() << ", element " << i
                        << ": CPU " << a << ", GPU " << b;
    }
  }
};

using FloatTypes = ::testing::Types<float, double>;

}  // namespace brigade
