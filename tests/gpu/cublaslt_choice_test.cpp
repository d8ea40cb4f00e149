// What is chosen over the emulator's cuBLASLts (EMULATOR_LT), of which each lacks something else.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/runtime/context.h"
#include "tests/gpu/gpu_test.h"
#include "tests/support/environment.h"

namespace brigade {
namespace {

std::string lt() {
  const char* value = std::getenv("EMULATOR_LT");
  return value == nullptr ? "" : value;
}

/// The newest line that begins with `start`, without it.
std::string told(const std::string& start) {
  const std::vector<std::string>& lines = Context::current().choices();
  const auto line = std::find_if(lines.rbegin(), lines.rend(),
                                 [&](const std::string& each) { return each.starts_with(start); });
  return line == lines.rend() ? "nothing" : line->substr(start.size());
}

/// A hidden layer's kernels, [batch, 24] by [24, 40], and those of the layer behind it. Whether
/// they compute what they should is other tests' matter.
void use_all(std::int64_t batch) {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::f32, kGpu); };
  const auto full = [](const Shape& shape, double value) {
    Tensor x = Tensor::empty(shape, DType::f32, kGpu);
    ops::fill(value, x);
    return x;
  };
  Tensor y = zeros({batch, 40});
  Tensor dx = zeros({batch, 40});
  Tensor dw = zeros({16, 40});
  Tensor db = zeros({16});
  const Tensor mask = ops::empty_relu_mask(y);
  ops::linear(zeros({batch, 24}), zeros({40, 24}), zeros({40}), y, Activation::none);
  ops::linear(full({batch, 24}, 1.0), full({40, 24}, -1.0), zeros({40}), y, Activation::relu, mask);
  ops::linear_input_backward(zeros({batch, 16}), zeros({16, 40}), y, mask, dx);
  ops::linear_weight_backward(zeros({batch, 16}), y, {}, dw, {}, db);
}

using CublasLtChoice = GpuTest;

TEST_F(CublasLtChoice, IsWhatThisOneHasAndWhatPassesItsTrial) {
  use_all(8);
  const bool none = lt() == "none";
  const std::string one = "one cuBLASLt kernel";
  const auto why = [&](const std::string& fault) {
    return none ? ", because cuBLASLt has no such kernel"
                : ", because cuBLASLt's kernel failed a trial: it " + fault;
  };
  const bool wrong = lt() == "wrong";
  const bool subtle = lt() == "subtle";
  EXPECT_EQ(told("linear f32 8x24x40, bias: "), none ? "a pass over y" + why("") : one);
  EXPECT_EQ(told("linear f32 8x24x40, bias, ReLU, mask: "),
            lt() == "keeps_nan"
                ? one
                : "a pass over y" + why(wrong || subtle ? "has another mask" : "loses NaN"));
  EXPECT_EQ(
      told("input gradient f32 8x40x16: "),
      none || wrong || subtle ? "cuBLAS and a pass over dx" + why("masks or adds up wrong") : one);
  EXPECT_EQ(told("weight gradient f32 8x40x16: "),
            none || wrong || subtle ? "cuBLAS and a column sum" + why("adds up wrong") : one);
}

TEST_F(CublasLtChoice, IsNoneWhereTheEnvironmentForbidsEpilogues) {
  const test::EnvironmentVariable forbidden("BRIGADE_EPILOGUES", "0");
  use_all(12);
  const std::string why = ", because BRIGADE_EPILOGUES is 0";
  EXPECT_EQ(told("linear f32 12x24x40, bias: "), "a pass over y" + why);
  EXPECT_EQ(told("linear f32 12x24x40, bias, ReLU, mask: "), "a pass over y" + why);
  EXPECT_EQ(told("input gradient f32 12x40x16: "), "cuBLAS and a pass over dx" + why);
  EXPECT_EQ(told("weight gradient f32 12x40x16: "), "cuBLAS and a column sum" + why);
}

TEST_F(CublasLtChoice, IsAnotherWhereThereIsNoMemoryForATrial) {
  use_all(8);  // handles, workspaces
  // Sizes of which no test has left a block behind.
  const Tensor dz = Tensor::zeros({509, 19}, DType::f32, kGpu);
  const Tensor w = Tensor::zeros({19, 40}, DType::f32, kGpu);
  const Tensor x = Tensor::zeros({509, 40}, DType::f32, kGpu);
  const Tensor mask = ops::empty_relu_mask(x);
  Tensor dx = Tensor::empty({509, 40}, DType::f32, kGpu);
  mask.zero();
  {
    const test::EnvironmentVariable none("EMULATOR_GPU_MIB", "0");
    ops::linear_input_backward(dz, w, x, mask, dx);
    EXPECT_THROW(Tensor::empty({1'000'000}, DType::f32, kGpu), OutOfMemoryError);
  }
  if (lt() != "none") {
    EXPECT_EQ(told("input gradient f32 509x40x19: "),
              "cuBLAS and a pass over dx, because there was no memory to try cuBLASLt's kernel");
  }
  EXPECT_EQ(dx.to_vector<float>(), std::vector<float>(std::size_t{509} * 40, 0.0F));
}

}  // namespace
}  // namespace brigade
