// What is chosen over the emulator's cuBLASLts (EMULATOR_LT), of which each lacks something else.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/runtime/context.h"
#include "tests/gpu/gpu_test.h"

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

/// y = x Wᵀ + b without and with a ReLU, x [batch, 24], W [40, 24]. Other tests check the results.
void use_both(std::int64_t batch) {
  const auto zeros = [](const Shape& shape) { return Tensor::zeros(shape, DType::f32, kGpu); };
  Tensor y = zeros({batch, 40});
  ops::linear(zeros({batch, 24}), zeros({40, 24}), zeros({40}), y, Activation::none);
  ops::linear(zeros({batch, 24}), zeros({40, 24}), zeros({40}), y, Activation::relu);
}

using CublasLtChoice = GpuTest;

TEST_F(CublasLtChoice, IsAKernelThatExistsAndKeepsNaN) {
  use_both(8);
  const std::string none = "a pass over y, because cuBLASLt has no such kernel";
  const std::string one = "one cuBLASLt kernel";
  EXPECT_EQ(told("linear f32 8x24x40, bias: "), lt() == "none" ? none : one);
  EXPECT_EQ(told("linear f32 8x24x40, bias, ReLU: "),
            lt() == "none" ? none
            : lt() == "keeps_nan"
                ? one
                : "a pass over y, because the ReLU of cuBLASLt's kernel turns NaN "
                  "into 0");
}

}  // namespace
}  // namespace brigade
