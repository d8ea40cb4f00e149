// What no_sync() promises, in literal gradients, and what a failed backward leaves behind.
#include <gmock/gmock.h>

#include <cmath>
#include <optional>

#include "autograd/functions/binary.h"
#include "autograd/variable.h"
#include "core/ops.h"
#include "dist/ddp/grad_averager.h"
#include "dist/ddp/replica_check.h"
#include "optim/sgd.h"
#include "tests/support/expect_error.h"
#include "tests/support/on_backward.h"
#include "tests/support/slopes.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using test::backward_of;
using test::gradient_of;
using test::numbers;
using test::thread_world;

TEST(NoSync, TheFirstSynchronisedBackwardReducesAllThatWasAccumulated) {
  for (const SyncMode mode : test::kAllModes) {
    thread_world(2, [mode](Communicator& comm) {
      const auto p = numbers(1);
      GradAverager parallel(p, comm, {.mode = mode});
      const double mine = comm.rank() == 0 ? 1.0 : 5.0;
      {
        const auto scope = parallel.no_sync();
        backward_of({{p[0], mine}});
        backward_of({{p[0], 10 * mine}});
        EXPECT_EQ(comm.collectives(), 0U);
        EXPECT_EQ(gradient_of(p[0]), 11 * mine / 2) << "its own share, not yet the others'";
      }
      backward_of({{p[0], 100 * mine}});
      EXPECT_EQ(comm.collectives(), 1U);
      EXPECT_EQ(gradient_of(p[0]), 333.0);  // (111 + 555) / 2
    });
  }
}

TEST(NoSync, AnAverageAccumulatedUponIsNotAveragedTwice) {
  for (const SyncMode mode : test::kAllModes) {
    thread_world(2, [mode](Communicator& comm) {
      const auto p = numbers(1);
      const GradAverager parallel(p, comm, {.mode = mode});
      const double mine = comm.rank() == 0 ? 1.0 : 5.0;
      backward_of({{p[0], mine}});
      EXPECT_EQ(gradient_of(p[0]), 3.0);
      backward_of({{p[0], 10 * mine}});
      EXPECT_EQ(gradient_of(p[0]), 33.0);
    });
  }
}

TEST(NoSync, IsDecidedWhenBackwardStartsNotInForward) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(1);
    GradAverager parallel(p, comm, {});
    GradAverager::NoSyncScope scope = parallel.no_sync();
    const autograd::Variable inside = autograd::mul(p[0], comm.rank() == 0 ? 1 : 5);
    scope.reset();
    inside.backward();
    EXPECT_EQ(gradient_of(p[0]), 3.0) << "forward inside, backward outside: synchronised";

    p[0].zero_grad();
    const autograd::Variable outside = autograd::mul(p[0], comm.rank() == 0 ? 1 : 5);
    scope = parallel.no_sync();
    outside.backward();
    EXPECT_EQ(gradient_of(p[0]), comm.rank() == 0 ? 0.5 : 2.5) << "the other way round: not";
  });
}

TEST(NoSync, EndsWhenAnExceptionLeavesItsScope) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(1);
    GradAverager parallel(p, comm, {});
    try {
      const auto scope = parallel.no_sync();
      throw Error("the data ran out");
    } catch (const Error&) {
    }
    backward_of({{p[0], comm.rank() == 0 ? 1.0 : 5.0}});
    EXPECT_EQ(gradient_of(p[0]), 3.0);
  });
}

TEST(NoSync, StepsOnLocalGradientsDriveTheRanksApartAndTheDifferenceIsShown) {
  thread_world(3, [](Communicator& comm) {
    const auto p = numbers(2);
    GradAverager parallel(p, comm, {});
    optim::SGD optimizer(p, {.lr = 1});
    const auto scope = parallel.no_sync();
    std::vector<double> differences{largest_rank_difference(p, comm).value};
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      backward_of({{p[0], 1}, {p[1], 3.0 * comm.rank()}});
      optimizer.step(optim::LocalGradients::allow);
      differences.push_back(largest_rank_difference(p, comm).value);
    }
    EXPECT_THAT(differences, testing::ElementsAre(0, 2, 4));  // ranks 0 and 2: 6/3 per step
    EXPECT_EQ(largest_rank_difference(p, comm).parameter, "b");
  });
}

TEST(RankDifference, OfANumberAndNoneIsInfinite) {
  for (const double none : {std::nan(""), HUGE_VAL}) {
    thread_world(2, [none](Communicator& comm) {
      const auto p = numbers(2);
      Tensor b = p[1].data();
      ops::fill(comm.rank() == 1 ? none : 1.0, b);
      EXPECT_EQ(largest_rank_difference(p, comm).value, INFINITY);
      EXPECT_EQ(largest_rank_difference(p, comm).parameter, "b");
    });
  }
}

TEST(FailedBackward, BeforeACollectiveLeavesTheNextOneAsIfItHadNotBeen) {
  for (const SyncMode mode : test::kAllModes) {
    thread_world(2, [mode](Communicator& comm) {
      const auto p = numbers(3);
      const GradAverager parallel(p, comm, {.mode = mode, .plan = {{0, 1, 2}}});
      const autograd::Variable failing = test::on_backward(p[1], test::fail_in_backward);
      EXPECT_ERROR(backward_of({{p[0], 1}, {failing, 1}, {p[2], 1}}), "backward failed");
      for (const autograd::Variable& parameter : p) {
        parameter.zero_grad();
      }
      const double mine = comm.rank() == 0 ? 1.0 : 5.0;
      backward_of({{p[0], mine}, {p[1], mine}, {p[2], mine}});
      for (const autograd::Variable& parameter : p) {
        EXPECT_EQ(gradient_of(parameter), 3.0);
      }
    });
  }
}

TEST(FailedBackward, IsForgottenByWhatWatchesTheOrderOfGradients) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(3);
    const GradAverager parallel(p, comm, {});
    const autograd::Variable failing = test::on_backward(p[1], test::fail_in_backward);
    EXPECT_ERROR(backward_of({{p[0], 1}, {failing, 1}, {p[2], 1}}), "backward failed");
    for (const autograd::Variable& parameter : p) {
      parameter.zero_grad();
    }
    backward_of({{p[0], 1}, {p[1], 2}, {p[2], 3}});
    EXPECT_EQ(gradient_of(p[0]), 1.0);
    EXPECT_EQ(gradient_of(p[2]), 3.0);
  });
}

TEST(FailedBackward, IsNoneWhereWhatFailsIsTheUpdateBehindIt) {
  for (const SyncMode mode : test::kAllModes) {
    thread_world(2, [mode](Communicator& comm) {
      const auto p = numbers(1);
      GradAverager parallel(p, comm, {.mode = mode});
      backward_of({{p[0], 1}});
      parallel.on_backward_abort();
      p[0].zero_grad();
      backward_of({{p[0], 3}});
      EXPECT_EQ(gradient_of(p[0]), 3.0);
    });
  }
}

TEST(FailedBackward, ThatHasNotBegunHereLeavesTheNextOneAsIfItHadNotBeen) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(1);
    GradAverager parallel(p, comm, {});
    backward_of({{p[0], 1}});
    comm.blocking_all_reduce(Tensor::zeros({1}));  // a metric
    // Another listener has failed before this one heard of a backward.
    parallel.on_backward_abort();
    p[0].zero_grad();
    backward_of({{p[0], 3}});
    EXPECT_EQ(gradient_of(p[0]), 3.0);
  });
}

/// Fails where bucket 1 should leave, behind bucket 0.
class FailsBehindOne final : public CommHook {
 public:
  std::string name() const override { return "fails"; }
  Work all_reduce(std::size_t bucket, const Tensor& grads, std::string_view /*label*/,
                  Communicator& comm) override {
    if (bucket == 1) {
      throw Error("the hook fails");
    }
    return comm.all_reduce(grads);
  }
};

TEST(FailedBackward, BehindACollectiveRefusesTheNextOne) {
  for (const SyncMode mode : {SyncMode::flat, SyncMode::per_param, SyncMode::overlap}) {
    thread_world(2, [mode](Communicator& comm) {
      const auto p = numbers(2);
      GradAverager parallel(
          p, comm, {.mode = mode, .hook = std::make_shared<FailsBehindOne>(), .plan = {{1}, {0}}});
      EXPECT_ERROR(backward_of({{p[0], 1}, {p[1], 1}}), "the hook fails");
      const std::string refusal =
          "data parallel: an earlier backward failed with an all-reduce in flight, so the ranks no "
          "longer execute the same collectives; end the job";
      EXPECT_ERROR(backward_of({{p[0], 1}, {p[1], 1}}), refusal) << to_string(mode);
      const auto scope = parallel.no_sync();
      EXPECT_ERROR(backward_of({{p[0], 1}, {p[1], 1}}), refusal) << to_string(mode);
    });
  }
}

TEST(Gradients, AreWrittenIntoTheSameBucketAgainAfterZeroGrad) {
  for (const SyncMode mode : test::kAllModes) {
    thread_world(2, [mode](Communicator& comm) {
      const auto p = numbers(2);
      const GradAverager parallel(p, comm, {.mode = mode});
      backward_of({{p[0], 7}, {p[1], 7}});
      const std::byte* place = p[0].grad().bytes();
      p[0].zero_grad();
      p[1].zero_grad();
      backward_of({{p[0], 2}, {p[1], 2}});
      EXPECT_EQ(gradient_of(p[0]), 2.0) << "overwritten, not added to";
      EXPECT_EQ(p[0].grad().bytes(), place);
      EXPECT_TRUE(p[0].grad().same_storage(parallel.buckets().back().grads));
    });
  }
}

TEST(Gradients, AreWhatIsReducedAndParametersAreNotTouched) {
  for (const SyncMode mode : test::kAllModes) {
    thread_world(3, [mode](Communicator& comm) {
      const auto p = numbers(4);
      // Buckets of three and of one: the last, partial one counts as well.
      const GradAverager parallel(p, comm, {.mode = mode, .bucket_bytes = 3 * kSliceAlignment});
      const double mine = 3.0 * comm.rank();
      backward_of({{p[0], mine}, {p[1], mine}, {p[2], mine}, {p[3], mine}});
      for (const autograd::Variable& parameter : p) {
        EXPECT_EQ(gradient_of(parameter), 3.0) << to_string(mode) << ": the average, not the sum";
        EXPECT_EQ(parameter.data().item(), 1.0) << to_string(mode);
      }
    });
  }
}

}  // namespace
}  // namespace brigade::dist
