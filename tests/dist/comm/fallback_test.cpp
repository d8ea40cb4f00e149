#include "dist/comm/fallback.h"

#include <gmock/gmock.h>

#include <atomic>

#include "core/error.h"
#include "dist/comm/single_process.h"
#include "tests/support/idle_communicator.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using testing::StartsWith;

/// A rank by itself that notes when it is abandoned.
class Watched final : public test::IdleCommunicator {
 public:
  explicit Watched(std::atomic<int>& abandoned) : abandoned_(abandoned) {}
  void abandon() noexcept override { ++abandoned_; }

 private:
  std::atomic<int>& abandoned_;
};

TEST(Fallback, TakesWhatEveryRankCanMake) {
  test::thread_world(3, [](Communicator& control) {
    std::string why;
    const auto make = [] { return std::make_unique<SingleProcessCommunicator>(kCpu); };
    EXPECT_NE(if_all_can(control, make, why), nullptr);
    EXPECT_EQ(why, "");
  });
}

TEST(Fallback, OneRankThatCannotStopsAllAndIsNamed) {
  std::atomic<int> abandoned = 0;
  test::thread_world(4, [&](Communicator& control) {
    std::string why;
    const auto make = [&]() -> std::unique_ptr<Communicator> {
      if (control.rank() == 1 || control.rank() == 3) {
        throw Error(fmt::format("no network on {}", control.rank()));
      }
      return std::make_unique<Watched>(abandoned);
    };
    EXPECT_EQ(if_all_can(control, make, why), nullptr);
    EXPECT_EQ(why, "rank 1: no network on 1; rank 3: no network on 3");
  });
  EXPECT_EQ(abandoned, 2) << "what ranks 0 and 2 have made must not wait for the others";
}

TEST(Fallback, TheCauseIsNotHiddenByThoseWhoOnlyWaitedForIt) {
  test::thread_world(4, [](Communicator& control) {
    const std::string complaints = complaints_about(control, [&] {
      throw Error(control.rank() == 2 ? "no GPU" : "no answer of the other ranks");
    });
    EXPECT_EQ(complaints, "rank 0: no answer of the other ranks; rank 2: no GPU");
  });
}

TEST(Fallback, ThreeDifferentComplaintsAreEnough) {
  test::thread_world(5, [](Communicator& control) {
    const std::string complaints =
        complaints_about(control, [&] { throw Error(fmt::format("number {}", control.rank())); });
    EXPECT_EQ(complaints, "rank 0: number 0; rank 1: number 1; rank 2: number 2");
  });
}

TEST(Fallback, ALongComplaintArrivesWhole) {
  test::thread_world(2, [](Communicator& control) {
    std::string why;
    const auto make = []() -> std::unique_ptr<Communicator> {
      throw Error(std::string(5000, 'x'));
    };
    EXPECT_EQ(if_all_can(control, make, why), nullptr);
    EXPECT_THAT(why, StartsWith("rank 0: xxx"));
    EXPECT_EQ(why.size(), 8U + 5000U);
  });
}

}  // namespace
}  // namespace brigade::dist
