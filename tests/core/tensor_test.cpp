#include "core/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>

#include "tests/support/expect_error.h"
#include "tests/support/resident.h"

namespace brigade {
namespace {

using testing::Each;
using testing::ElementsAre;

Tensor counting(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 0.0F);
  return Tensor::from(values, shape);
}

TEST(Tensor, IsUndefinedByDefault) {
  EXPECT_FALSE(Tensor().defined());
}

TEST(Tensor, KeepsTheValuesItIsMadeFrom) {
  const Tensor tensor = Tensor::from(std::vector<std::int64_t>{3, -1}, {2});
  EXPECT_EQ(tensor.dtype(), DType::i64);
  EXPECT_EQ(tensor.nbytes(), 16U);
  EXPECT_THAT(tensor.to_vector<std::int64_t>(), ElementsAre(3, -1));
}

TEST(Tensor, IsZeroWhenMadeByZeros) {
  EXPECT_THAT(Tensor::zeros({3, 2}).to_vector<float>(), Each(0.0F));
  EXPECT_THAT(Tensor::zeros({3}, DType::f64).to_vector<double>(), Each(0.0));
}

TEST(Tensor, IsZeroWhenMadeByZerosOfWholeNumbers) {
  EXPECT_THAT(Tensor::zeros({3}, DType::i64).to_vector<std::int64_t>(), Each(0));
  EXPECT_THAT(Tensor::zeros({3}, DType::u8).to_vector<std::uint8_t>(), Each(0));
}

TEST(Tensor, SharesItsMemoryWithCopiesOfItself) {
  const Tensor tensor = counting({4});
  const Tensor copy = tensor;
  copy.data<float>()[2] = 9.0F;
  EXPECT_THAT(tensor.to_vector<float>(), ElementsAre(0, 1, 9, 3));
}

TEST(Tensor, SharesItsMemoryWithReshapedViews) {
  const Tensor tensor = counting({2, 3});
  const Tensor view = tensor.reshape({3, 2});
  EXPECT_EQ(view.shape(), (Shape{3, 2}));
  EXPECT_EQ(view.data<float>(), tensor.data<float>());
  EXPECT_TRUE(view.same_storage(tensor));
}

TEST(Tensor, ViewsRowsWithoutCopying) {
  const Tensor tensor = counting({4, 3});
  const Tensor rows = tensor.rows(1, 2);
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  EXPECT_EQ(rows.data<float>(), tensor.data<float>() + 3);
  EXPECT_THAT(rows.to_vector<float>(), ElementsAre(3, 4, 5, 6, 7, 8));
}

TEST(Tensor, ViewsNoRowsAtItsEnd) {
  const Tensor rows = counting({4, 3}).rows(4, 0);
  EXPECT_EQ(rows.shape(), (Shape{0, 3}));
  EXPECT_THAT(rows.to_vector<float>(), testing::IsEmpty());
}

TEST(Tensor, ViewsAStretchOfItsElements) {
  const Tensor flat = counting({10});
  const Tensor slice = flat.flat_view(2, {2, 3});
  EXPECT_EQ(slice.byte_offset(), 8U);
  EXPECT_THAT(slice.to_vector<float>(), ElementsAre(2, 3, 4, 5, 6, 7));
}

TEST(Tensor, CountsTheOffsetOfAViewOfAViewFromTheStorage) {
  const Tensor view = counting({10}).flat_view(2, {6}).flat_view(3, {2});
  EXPECT_EQ(view.byte_offset(), 20U);
  EXPECT_THAT(view.to_vector<float>(), ElementsAre(5, 6));
}

TEST(Tensor, KeepsItsMemoryAliveThroughAView) {
  Tensor view;
  {
    const Tensor tensor = counting({6});
    view = tensor.rows(4, 2);
  }
  const Tensor other = Tensor::zeros({6});  // would get the same block, had it been freed
  EXPECT_THAT(view.to_vector<float>(), ElementsAre(4, 5));
}

TEST(Tensor, IsIndependentOfItsClone) {
  const Tensor tensor = counting({3});
  const Tensor clone = tensor.clone();
  tensor.zero();
  EXPECT_THAT(clone.to_vector<float>(), ElementsAre(0, 1, 2));
  EXPECT_FALSE(clone.same_storage(tensor));
}

TEST(Tensor, CopiesValuesIntoAViewOnly) {
  const Tensor tensor = counting({5});
  tensor.flat_view(1, {2}).copy_from(Tensor::from(std::vector<float>{8, 9}, {2}));
  EXPECT_THAT(tensor.to_vector<float>(), ElementsAre(0, 8, 9, 3, 4));
}

TEST(Tensor, IsItselfOnTheDeviceWhereItAlreadyIs) {
  const Tensor tensor = counting({2});
  EXPECT_TRUE(tensor.to(kCpu).same_storage(tensor));
}

TEST(Tensor, GivesItsOnlyElementAsANumber) {
  EXPECT_EQ(Tensor::from(std::vector<float>{1.5F}, {}).item(), 1.5);
  EXPECT_EQ(Tensor::from(std::vector<std::int64_t>{7}, {1}).item(), 7.0);
}

TEST(Tensor, RefusesItemOfSeveralElements) {
  EXPECT_ERROR(static_cast<void>(counting({2}).item()), "item: expected one element, got [2]");
}

TEST(Tensor, RefusesValuesThatDoNotFitTheShape) {
  EXPECT_ERROR(Tensor::from(std::vector<float>{1, 2, 3}, {2, 2}),
               "tensor: expected 4 values for shape [2, 2], got 3");
}

TEST(Tensor, RefusesAnotherElementType) {
  EXPECT_ERROR(static_cast<void>(counting({2}).data<double>()),
               "tensor: expected dtype f64, got f32");
}

TEST(Tensor, GivesThePagesOfDiscardedValuesBackAndNoOthers) {
  constexpr std::int64_t kLength = 1'000'003;  // no multiple of a page
  constexpr std::int64_t kBytes = kLength * 4;
  const Tensor whole = counting({3 * kLength});
  const Tensor middle = whole.flat_view(kLength, {kLength});
  const std::vector<float> before = whole.to_vector<float>();
  const std::int64_t resident = test::resident_bytes();
  middle.discard();
  EXPECT_LT(test::resident_bytes(), resident - kBytes + kBytes / 8);
  std::vector<float> after = whole.to_vector<float>();
  std::iota(after.begin() + kLength, after.begin() + 2 * kLength, static_cast<float>(kLength));
  EXPECT_EQ(after, before);
}

TEST(Tensor, KeepsAnothersMemoryWhenItIsDiscarded) {
  const auto owner = std::make_shared<std::vector<float>>(1 << 20, 7.0F);
  const Tensor tensor =
      Tensor::over(owner, reinterpret_cast<std::byte*>(owner->data()), {1 << 20}, DType::f32);
  tensor.discard();
  EXPECT_THAT(tensor.to_vector<float>(), Each(7.0F));
}

TEST(Tensor, RefusesDataOfAnUndefinedTensor) {
  EXPECT_ERROR(static_cast<void>(Tensor().data<float>()),
               "tensor: expected memory, got an undefined tensor");
}

TEST(Tensor, RefusesToReshapeToAnotherNumberOfElements) {
  EXPECT_ERROR(static_cast<void>(counting({2, 3}).reshape({4})),
               "reshape: [2, 3] has 6 elements, [4] has 4");
}

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

TEST(Tensor, RefusesRowsBeyondItsEnd) {
  EXPECT_ERROR(static_cast<void>(counting({4, 3}).rows(3, 2)), "rows: 2 from 3 on asked of [4, 3]");
  EXPECT_THROW(static_cast<void>(counting({4, 3}).rows(kHuge, 1)), Error);
}

TEST(Tensor, RefusesAViewBeyondItsEnd) {
  EXPECT_ERROR(static_cast<void>(counting({10}).flat_view(8, {3})),
               "tensor: view [3] at element 8 asked of 10 elements");
  EXPECT_THROW(static_cast<void>(counting({10}).flat_view(kHuge, {2})), Error);
}

TEST(Tensor, RefusesToCopyFromAnotherShapeOrType) {
  EXPECT_ERROR(counting({2}).copy_from(counting({3})), "copy: expected f32 [2], got f32 [3]");
  EXPECT_ERROR(counting({2}).copy_from(Tensor::zeros({2}, DType::f64)),
               "copy: expected f32 [2], got f64 [2]");
}

}  // namespace
}  // namespace brigade
