#include "core/runtime/recording.h"

#include <gmock/gmock.h>

#include "core/ops.h"
#include "core/ops_elementwise.h"
#include "core/runtime/context.h"
#include "tests/support/expect_error.h"

namespace brigade {
namespace {

TEST(Recording, RepeatsKernelsAndHostCodeInTheirOrder) {
  Stream& stream = compute_stream(kCpu);
  Tensor x = Tensor::zeros({2});
  const Tensor one = Tensor::from(std::vector<float>{1, 1}, {2});
  std::vector<double> seen;
  const auto recording = record(kCpu, [&] {
    ops::binary(BinaryOp::add, x, one, {}, x);
    // What host code runs in turn belongs to it: twice in all, not three times.
    repeatable(stream, [&] {
      ops::axpby(x, {.alpha = 2.0}, x);
      seen.push_back(x.to_vector<float>().front());
    });
  });
  EXPECT_THAT(seen, testing::ElementsAre(2));
  recording->replay();
  EXPECT_THAT(seen, testing::ElementsAre(2, 6));
}

TEST(Recording, EndsWithAnExceptionToo) {
  EXPECT_ERROR(record(kCpu, [] { throw Error("no"); }), "no");
  EXPECT_FALSE(compute_stream(kCpu).recording());
}

}  // namespace
}  // namespace brigade
