#include "dist/ddp/bucket.h"

#include <gmock/gmock.h>

#include "core/ops.h"
#include "core/runtime/context.h"
#include "tests/support/small_model.h"

namespace brigade::dist {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(MakeBuckets, KeepsValuesAndMakesGradientsSlices) {
  const auto model = test::make_mlp({3, 5, 2});
  const std::vector<autograd::Variable> parameters = model->parameters();
  std::vector<std::vector<float>> before;
  for (const autograd::Variable& parameter : parameters) {
    before.push_back(parameter.data().to_vector<float>());
  }
  const std::vector<Bucket> buckets = make_buckets(parameters, {{3, 2, 1, 0}});
  ASSERT_EQ(buckets.size(), 1U);
  std::size_t expected_offset = 0;
  for (const std::size_t i : buckets[0].members) {
    EXPECT_EQ(parameters[i].data().to_vector<float>(), before[i]) << parameters[i].name();
    EXPECT_TRUE(parameters[i].data().same_storage(buckets[0].data));
    EXPECT_TRUE(parameters[i].grad_state()->grad().same_storage(buckets[0].grads));
    EXPECT_EQ(parameters[i].grad_state()->grad().byte_offset(), expected_offset);
    EXPECT_EQ(parameters[i].data().byte_offset(), expected_offset);
    expected_offset += slice_bytes(parameters[i].data());
  }
  EXPECT_EQ(buckets[0].grads.nbytes(), expected_offset);
}

TEST(MakeBuckets, GiveTheMemoryBackThatWeightsAndGradientsHaveLeft) {
  const auto model = test::make_mlp({256, 256});
  test::backward_once(*model, 256, 256);  // the gradients have memory of their own, too
  const std::size_t one = model->parameters()[0].data().nbytes();
  const auto kept = [] {
    const MemoryStats stats = Context::current().memory_stats(kCpu);
    return stats.reserved - stats.in_use;
  };
  const auto elsewhere = [&](const Shape& shape, DType dtype, Device device) {
    EXPECT_LT(kept(), one) << "the old weights, while the gradients get their new place";
    return Tensor::zeros(shape, dtype, device);
  };
  const std::vector<Bucket> buckets = make_buckets(model->parameters(), {{1, 0}}, elsewhere);
  EXPECT_LT(kept(), one);
}

TEST(MakeBuckets, AreNamedAfterTheirOnlyMemberOrNumbered) {
  const auto model = test::make_mlp({3, 5, 2});
  const std::vector<Bucket> buckets = make_buckets(model->parameters(), {{3, 2}, {1}, {0}});
  EXPECT_EQ(buckets[0].label, "bucket_0");
  EXPECT_EQ(buckets[2].label, "0.weight");
}

TEST(MakeBuckets, ZeroMemoryThatMayHoldAnything) {
  const auto model = test::make_mlp({3, 5});  // 5 and 15 numbers, in slices of 16
  const auto used_before = [](const Shape& shape, DType dtype, Device device) {
    Tensor memory = Tensor::empty(shape, dtype, device);
    ops::fill(7.0, memory);
    return memory;
  };
  const std::vector<Bucket> buckets = make_buckets(model->parameters(), {{1, 0}}, used_before);
  ASSERT_EQ(buckets.front().grads.numel(), 32);
  EXPECT_THAT(buckets.front().grads.to_vector<float>(), testing::Each(0.0F));
  EXPECT_EQ(buckets.front().data.to_vector<float>()[31], 0.0F);
}

TEST(MakeBuckets, RefusesAPlanThatForgetsAParameter) {
  const auto model = test::make_mlp({3, 2});
  const auto parameters = model->parameters();
  EXPECT_THAT([&] { make_buckets(parameters, {{0}}); },
              ThrowsMessage<Error>(HasSubstr("'0.bias' is not in the plan")));
}

TEST(MakeBuckets, RefusesAPlanThatNamesAParameterTwice) {
  const auto model = test::make_mlp({3, 2});
  const auto parameters = model->parameters();
  EXPECT_THAT(
      [&] {
        make_buckets(parameters, {{0, 1}, {1}});
      },
      ThrowsMessage<Error>(HasSubstr("'0.bias' is in the plan twice")));
}

}  // namespace
}  // namespace brigade::dist
