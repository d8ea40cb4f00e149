#include "dist/hooks/reduce_check.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/error.h"
#include "core/ops.h"
#include "dist/hooks/half_hook.h"
#include "dist/hooks/power_sgd.h"
#include "tests/support/all_reduces.h"
#include "tests/support/small_training.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

constexpr std::int64_t kNumel = 5000;  // five blocks, the last not full

/// A fault in one rank's numbers. A communicator has it before the check encloses it.
struct Flip {
  int rank = 1;
  bool before = false;        ///< in the contribution; else in the result
  std::size_t bit = 30;       ///< of a f32: the highest of its exponent
  std::int64_t place = 3000;  ///< which number
};

void add_fault(Communicator& comm, const Flip& flip) {
  if (comm.rank() != flip.rank) {
    return;
  }
  comm.add_wrap([flip](const Tensor& payload, std::string_view /*label*/,
                       Communicator::Collective collective) {
    const auto strike = [flip, payload] {
      const std::size_t byte = static_cast<std::size_t>(flip.place) * sizeof(float) + flip.bit / 8;
      payload.bytes()[byte] ^= std::byte{1} << flip.bit % 8;
    };
    return Communicator::Collective([=, collective = std::move(collective)](Collectives& ranks) {
      if (flip.before) {
        strike();
      }
      collective(ranks);
      if (!flip.before) {
        strike();
      }
    });
  });
}

/// Normal numbers of any size, each rank's its own.
Tensor numbers_of(int rank, double size) {
  std::mt19937 random(static_cast<unsigned>(rank));
  std::normal_distribution<double> normal;
  std::vector<float> values(kNumel);
  std::ranges::generate(values, [&] { return static_cast<float>(size * normal(random)); });
  return Tensor::from(values, {kNumel});
}

/// Every rank of `ranks` sums `size` numbers with a fault and gets a complaint that matches.
template <class Matcher>
void expect_complaint(int ranks, const Flip& flip, const Matcher& matcher,
                      std::optional<DType> wire = DType::f32) {
  test::thread_world(ranks, [&](Communicator& comm) {
    add_fault(comm, flip);
    ReduceCheck check(comm, wire);
    check.begin_step(7);
    check.set_contents({{"bucket_3", "4.weight, 4.bias"}});
    const Work work = comm.all_reduce(numbers_of(comm.rank(), 0.01), "bucket_3");
    EXPECT_THAT([&] { comm.wait(work); }, ThrowsMessage<VerificationError>(matcher));
  });
}

TEST(ReduceCheck, NamesTheRankThatHasAnotherResult) {
  expect_complaint(3, {.rank = 1},
                   AllOf(HasSubstr("check-reduce: bucket_3 (4.weight, 4.bias) of step 7: the ranks "
                                   "have different sums; wrong is that of rank 1 (off by "),
                         HasSubstr("a bit has flipped in memory or on the network"),
                         Not(HasSubstr("rank 0")), Not(HasSubstr("rank 2"))));
}

TEST(ReduceCheck, NamesOneOfTwoRanksByTheSum) {
  for (const int rank : {0, 1}) {
    expect_complaint(2, {.rank = rank},
                     HasSubstr("wrong is that of rank " + std::to_string(rank) + " (off by "));
  }
}

TEST(ReduceCheck, FindsTheLowestBitOfAResult) {
  expect_complaint(3, {.rank = 2, .bit = 0}, HasSubstr("wrong is that of rank 2;"));
  expect_complaint(2, {.rank = 1, .bit = 0},
                   HasSubstr("whose is wrong cannot be told, as they differ by no more than "
                             "rounding"));
}

TEST(ReduceCheck, ComparesTheRanksWhereTheResultIsNotTheSum) {
  const std::optional<DType> not_the_sum;
  expect_complaint(3, {.rank = 0}, HasSubstr("wrong is that of rank 0;"), not_the_sum);
  expect_complaint(2, {.rank = 1},
                   HasSubstr("whose is wrong cannot be told, as the hook's result is not the sum"),
                   not_the_sum);
}

TEST(ReduceCheck, FindsAContributionThatHasChanged) {
  for (const std::size_t bit : {23U, 26U, 30U, 31U}) {  // of the exponent, and the sign
    expect_complaint(
        3, {.rank = 2, .before = true, .bit = bit},
        AllOf(HasSubstr("the sum over the ranks is off by "), HasSubstr("alike on all ranks")));
  }
  expect_complaint(3, {.rank = 2, .before = true, .place = kNumel - 1},
                   HasSubstr("the sum over the ranks is off by "));
}

TEST(ReduceCheck, IsContentWithSumsOfAnySizeAndType) {
  for (const char* algorithm : {"", "ring", "halving", "tree", "ordered"}) {
    test::socket_world(5, [&](Communicator& comm) {
      if (*algorithm != '\0') {
        comm.use(test::make_all_reduce(algorithm));
      }
      const ReduceCheck check(comm, DType::f32);
      for (const double size : {0.0, 1e-44, 1e-38, 1e-20, 1.0, 1e30, 1e38}) {
        EXPECT_NO_THROW(comm.blocking_all_reduce(numbers_of(comm.rank(), size))) << size;
      }
      for (const std::int64_t numel : {0, 1, 1024, 1025}) {
        test::expect_all_reduce_sums(comm, numel, DType::f64);
      }
    });
  }
}

/// With the contributions and the sum rounded to `wire`, as HalfHook does.
Work rounded_sum(Communicator& comm, Tensor numbers, DType wire) {
  return comm.enqueue(numbers, "bucket_0", [=](Collectives& ranks) mutable {
    Tensor narrow = Tensor::empty(numbers.shape(), wire);
    const auto round = [&] {
      ops::narrow(numbers, narrow);
      ops::widen(narrow, {}, numbers);
    };
    round();
    ranks.sum(numbers);
    round();
  });
}

// Every number is rounded down by as much as there can be, or to zero.
TEST(ReduceCheck, AllowsTheMostThatRoundingCanDo) {
  struct Case {
    DType wire;
    float of_rank[2];
  };
  constexpr float kAlmostHalf = 0.998F * 0x1p-8F;  // of the last bit of a bf16 from 1 to 2
  for (const Case& each : {Case{DType::bf16, {1.0F + kAlmostHalf, 1.0F + 0x1p-7F + kAlmostHalf}},
                           Case{DType::f16, {1e-8F, 1e-8F}}}) {
    test::thread_world(2, [&](Communicator& comm) {
      const auto sum_under_check = [&](DType wire) {
        const ReduceCheck check(comm, wire);
        const std::vector<float> values(kNumel, each.of_rank[comm.rank()]);
        comm.wait(rounded_sum(comm, Tensor::from(values, {kNumel}), each.wire));
      };
      EXPECT_NO_THROW(sum_under_check(each.wire));
      EXPECT_THROW(sum_under_check(DType::f32), VerificationError);
    });
  }
}

TEST(ReduceCheck, TakesAnyNanForAnyOther) {
  test::thread_world(3, [](Communicator& comm) {
    constexpr std::int64_t kPlace = 2000;
    add_fault(comm, {.rank = 1, .bit = 31, .place = kPlace});  // the sign
    const ReduceCheck check(comm, DType::f32);
    const Tensor numbers = numbers_of(comm.rank(), 1.0);
    numbers.data<float>()[kPlace] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_NO_THROW(comm.blocking_all_reduce(numbers));
  });
}

TEST(ReduceCheck, LeavesNumbersThatAreNotFiniteToTheFiniteCheck) {
  test::thread_world(3, [](Communicator& comm) {
    const ReduceCheck check(comm, DType::f32);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      const Tensor numbers = numbers_of(comm.rank(), 1.0);
      numbers.data<float>()[comm.rank() * 2000] = bad;
      EXPECT_NO_THROW(comm.blocking_all_reduce(numbers));
    }
  });
}

TEST(ReduceCheck, ChangesNoTraining) {
  struct Case {
    std::shared_ptr<CommHook> (*hook)();
    std::optional<DType> wire;
  };
  const Case cases[] = {
      {[]() -> std::shared_ptr<CommHook> { return std::make_shared<PlainAllReduce>(); },
       DType::f32},
      {[]() -> std::shared_ptr<CommHook> { return std::make_shared<HalfHook>(DType::bf16); },
       DType::bf16},
      {[]() -> std::shared_ptr<CommHook> { return std::make_shared<HalfHook>(DType::f16); },
       DType::f16},
      {[]() -> std::shared_ptr<CommHook> { return std::make_shared<PowerSgd>(2); }, std::nullopt}};
  for (const Case& each : cases) {
    test::thread_world(3, [&](Communicator& comm) {
      const std::vector<float> plain = test::train(comm, {.hook = each.hook()});
      const ReduceCheck check(comm, each.wire);
      EXPECT_EQ(test::train(comm, {.hook = each.hook()}), plain);
    });
  }
}

}  // namespace
}  // namespace brigade::dist
