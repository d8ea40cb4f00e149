#include "core/runtime/loan.h"

#include <gmock/gmock.h>

#include <memory>

#include "core/config.h"
#include "core/error.h"
#include "core/ops.h"
#include "core/runtime/context.h"
#include "core/runtime/recording.h"
#include "tests/support/tensors.h"

namespace brigade {
namespace {

using test::f32;
using test::values;
using testing::ElementsAre;

TEST(Loan, LiesAtTheStartOfTheLendersMemory) {
  Loan loan;
  const Tensor lender = f32({1, 2, 3, 4, 5}, {5});
  const Tensor lent = loan.lend(lender, {2, 2});
  EXPECT_EQ(lent.bytes(), lender.bytes());
  EXPECT_EQ(lent.shape(), Shape({2, 2}));
  EXPECT_THAT(values(lent), ElementsAre(1, 2, 3, 4));
}

TEST(Loan, IsOneAtATimeAndNeedsRoom) {
  Loan loan;
  const Tensor lender = Tensor::zeros({4});
  EXPECT_FALSE(loan.lend(lender, {5}).defined());
  Tensor lent = loan.lend(lender, {3});
  EXPECT_FALSE(loan.lend(lender, {1}).defined()) << "the first one may still be read";
  const Tensor view = lent.flat_view(1, {1});
  lent = Tensor();
  EXPECT_FALSE(loan.lend(lender, {1}).defined()) << "a view is still there";
}

TEST(Loan, ComesBackWithTheLastHandle) {
  Loan loan;
  const Tensor lender = Tensor::zeros({4});
  loan.lend(lender, {4});
  const Tensor again = loan.lend(lender, {4});
  EXPECT_EQ(again.bytes(), lender.bytes());
}

TEST(Loan, MovesWithItsViewsWhenItIsCalledIn) {
  Loan loan;
  Tensor lender = f32({1, 2, 3, 4}, {4});
  const Tensor lent = loan.lend(lender, {2, 2});
  const Tensor row = lent.rows(1, 1);
  loan.call_in();
  EXPECT_NE(lent.bytes(), lender.bytes());
  ops::fill(test::kNaN, lender);
  EXPECT_THAT(values(lent), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values(row), ElementsAre(3, 4));
  EXPECT_EQ(loan.lend(lender, {4}).bytes(), lender.bytes()) << "the memory is free again";
}

TEST(Loan, CostsNothingToCallInWhenNobodyHoldsIt) {
  Loan loan;
  const Tensor lender = Tensor::zeros({4});
  loan.lend(lender, {4});
  const MemoryStats before = Context::current().allocator(kCpu)->stats();
  Context::current().allocator(kCpu)->reset_peak();
  loan.call_in();
  EXPECT_EQ(Context::current().allocator(kCpu)->stats().peak_in_use, before.in_use);
}

TEST(Loan, KeepsTheLendersMemory) {
  Loan loan;
  Tensor lender = f32({1, 2}, {2});
  const Tensor lent = loan.lend(lender, {2});
  lender = test::poisoned({2});
  EXPECT_THAT(values(lent), ElementsAre(1, 2));
}

TEST(Loan, IsNotForgottenWhereThereIsNoMemoryToMoveTo) {
  if (kSanitized) {
    GTEST_SKIP() << "a sanitizer ends the program";
  }
  Loan loan;
  const auto owner = std::make_shared<int>();
  // No machine has as much; nobody reads it.
  const Tensor lender = Tensor::over(owner, reinterpret_cast<std::byte*>(owner.get()),
                                     {std::int64_t{1} << 58}, DType::f32);
  const Tensor lent = loan.lend(lender, lender.shape());
  EXPECT_THROW(loan.call_in(), OutOfMemoryError);
  EXPECT_EQ(lent.bytes(), lender.bytes());
  EXPECT_FALSE(loan.lend(lender, {1}).defined());
}

TEST(Loan, EndsForOneWhoNeedsItLonger) {
  Loan loan;
  Tensor lender = f32({1, 2}, {2});
  const Tensor lent = loan.lend(lender, {2});
  end_loan(lent);
  EXPECT_NE(lent.bytes(), lender.bytes());
  const Tensor next = loan.lend(lender, {2});
  EXPECT_EQ(next.bytes(), lender.bytes()) << "the memory is free";
  const std::byte* own = lent.bytes();
  end_loan(lent);
  EXPECT_EQ(lent.bytes(), own);
  EXPECT_THAT(values(lent), ElementsAre(1, 2));
}

TEST(Loan, IsRefusedOnceItIsClosed) {
  Loan loan;
  const Tensor lender = Tensor::zeros({2});
  loan.close();
  EXPECT_FALSE(loan.lend(lender, {1}).defined());
}

TEST(Loan, MovesInEveryReplay) {
  Loan loan;
  Tensor lender = Tensor::zeros({2});
  Tensor lent;
  const auto recording = record(kCpu, [&] {
    lent = loan.lend(lender, {2});
    ops::fill(7, lent);
    loan.call_in();
    ops::fill(test::kNaN, lender);
  });
  ops::fill(0, lent);
  recording->replay();
  EXPECT_THAT(values(lent), ElementsAre(7, 7));
}

}  // namespace
}  // namespace brigade
