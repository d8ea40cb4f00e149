#include "dist/ddp/bucket.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "core/ops.h"
#include "core/runtime/context.h"
#include "tests/support/small_model.h"

namespace brigade::dist {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::string> labels(const Bucket& bucket) {
  std::vector<std::string> result;
  for (const Chunk& piece : bucket.pieces) {
    result.push_back(piece.label);
  }
  return result;
}

TEST(PlanParameters, FindLayersByTheNameBeforeTheLastDot) {
  std::vector<autograd::Variable> parameters;
  for (const char* name : {"0.weight", "0.bias", "block.1.weight", "block.2.weight", "", "scale"}) {
    parameters.emplace_back(Tensor::zeros({3}, DType::f64), true, name);
  }
  std::vector<std::size_t> layers;
  for (const PlanParameter& parameter : plan_parameters(parameters)) {
    EXPECT_EQ(parameter.bytes, 64U);
    EXPECT_EQ(parameter.dtype, DType::f64);
    layers.push_back(parameter.layer);
  }
  EXPECT_THAT(layers, ElementsAre(0, 0, 2, 3, 4, 5));
}

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
  const std::vector<Bucket> buckets = make_buckets(model->parameters(), {{1, 0}}, {}, elsewhere);
  EXPECT_LT(kept(), one);
}

TEST(MakeBuckets, TravelInOnePieceUnlessSplit) {
  const auto model = test::make_mlp({3, 5, 2});
  const std::vector<Bucket> buckets = make_buckets(model->parameters(), {{3, 2}, {1}, {0}});
  EXPECT_THAT(labels(buckets[0]), ElementsAre("bucket_0"));
  EXPECT_THAT(labels(buckets[2]), ElementsAre("0.weight"));
  EXPECT_EQ(buckets[2].pieces[0].grads.bytes(), buckets[2].grads.bytes());
  EXPECT_EQ(buckets[2].pieces[0].grads.nbytes(), buckets[2].grads.nbytes());
}

TEST(MakeBuckets, SplitWhatIsLargerThanTheCap) {
  const auto model = test::make_mlp({16, 16, 1});  // 0.weight: 1024 bytes, the bias one slice
  const std::vector<Bucket> buckets =
      make_buckets(model->parameters(), {{3, 2}, {1}, {0}}, /*piece_bytes=*/448);
  EXPECT_THAT(labels(buckets[1]), ElementsAre("0.bias")) << "not larger";
  EXPECT_THAT(labels(buckets[2]), ElementsAre("0.weight[1/3]", "0.weight[2/3]", "0.weight[3/3]"));
  std::vector<std::size_t> bytes;
  const std::byte* next = buckets[2].grads.bytes();
  for (const Chunk& piece : buckets[2].pieces) {
    EXPECT_EQ(piece.grads.bytes(), next) << "a gap or an overlap before " << piece.label;
    next += piece.grads.nbytes();
    bytes.push_back(piece.grads.nbytes());
  }
  EXPECT_THAT(bytes, ElementsAre(320, 320, 384)) << "whole slices, about equal, at most 448 bytes";
}

TEST(MakeBuckets, DoNotSplitAnExactFit) {
  const auto model = test::make_mlp({16, 16});
  const auto pieces = [&](std::size_t cap) {
    return make_buckets(model->parameters(), {{1}, {0}}, cap)[1].pieces.size();
  };
  EXPECT_EQ(pieces(1024), 1U);
  EXPECT_EQ(pieces(1023), 2U);
  EXPECT_EQ(pieces(512), 2U);
  EXPECT_EQ(pieces(100), 16U) << "a piece of 100 bytes is one of 64, which is aligned";
  EXPECT_EQ(pieces(1), 16U) << "no piece is smaller than the alignment";
}

TEST(MakeBuckets, KnowWhoseGradientsAPieceCarries) {
  const auto model = test::make_mlp({16, 16});
  const auto parameters = model->parameters();
  const Bucket bucket = make_buckets(parameters, {{1, 0}}, /*piece_bytes=*/576).front();
  ASSERT_EQ(bucket.pieces.size(), 2U);  // 64 bytes of bias and 1024 of weight, cut at 512
  EXPECT_THAT(members_of(bucket.pieces[0], bucket, parameters), ElementsAre(1, 0));
  EXPECT_THAT(members_of(bucket.pieces[1], bucket, parameters), ElementsAre(0));
}

TEST(MakeBuckets, ZeroThePaddingOfMemoryThatMayHoldAnything) {
  const auto model = test::make_mlp({3, 5});  // 5 and 15 numbers, in slices of 16
  const auto parameters = model->parameters();
  const auto used_before = [](const Shape& shape, DType dtype, Device device) {
    Tensor memory = Tensor::empty(shape, dtype, device);
    ops::fill(7.0, memory);
    return memory;
  };
  const std::vector<Bucket> buckets = make_buckets(parameters, {{1, 0}}, {}, used_before);
  ASSERT_EQ(buckets.front().grads.numel(), 32);
  const auto grads = buckets.front().grads.to_vector<float>();
  EXPECT_EQ(std::count(grads.begin(), grads.end(), 0.0F), 11 + 1);
  EXPECT_EQ(grads[5], 0.0F);
  EXPECT_EQ(grads[31], 0.0F);
  EXPECT_EQ(buckets.front().data.to_vector<float>()[31], 0.0F);
}

TEST(MakeBuckets, LeaveABucketWhoseMembersStayTogetherWhereItIs) {
  const auto model = test::make_mlp({3, 5, 2});
  const auto parameters = model->parameters();
  std::vector<std::vector<float>> values;
  for (const autograd::Variable& parameter : parameters) {
    values.push_back(parameter.data().to_vector<float>());
  }
  std::vector<Bucket> before = make_buckets(parameters, {{3, 2}, {1}, {0}});
  const std::byte* data = before[0].data.bytes();
  const std::byte* grads = before[0].grads.bytes();
  const std::size_t moves = parameters[3].grad_state()->storage_version();

  const std::vector<Bucket> after =
      make_buckets(parameters, {{1, 0}, {3, 2}}, {}, Tensor::zeros, std::move(before));
  ASSERT_EQ(after.size(), 2U);
  EXPECT_EQ(after[1].data.bytes(), data);
  EXPECT_EQ(after[1].grads.bytes(), grads);
  EXPECT_EQ(parameters[3].grad_state()->storage_version(), moves) << "optimizers need not follow";
  EXPECT_GT(parameters[0].grad_state()->storage_version(), moves);
  EXPECT_THAT(labels(after[1]), ElementsAre("bucket_1")) << "its place in the new order";
  EXPECT_EQ(after[1].pieces[0].grads.bytes(), grads);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(parameters[i].data().to_vector<float>(), values[i]) << parameters[i].name();
    EXPECT_TRUE(parameters[i].grad_state()->grad().same_storage(after[i < 2 ? 0 : 1].grads));
  }
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
