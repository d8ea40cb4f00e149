#include "dist/overlap/priority_order.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "dist/comm/emulated_link_communicator.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using testing::ElementsAre;

class Silent final : public BucketCompletion {
 public:
  void launched(std::size_t /*index*/, const Bucket& /*bucket*/, const Work& work) override {
    last_ = work;
  }
  void backward_ended() override { last_.done().synchronize(); }
  void reset() noexcept override {}

 private:
  Work last_;
};

/// Layers over a slow link. To rank 0 they are ready at once and pile up; on rank 1 each
/// comes long after the one before has arrived, so that its own plan would change nothing.
class Watched {
 public:
  explicit Watched(Communicator& comm)
      : comm_(comm.split(0, comm.rank()), {.alpha_us = 3000, .gigabytes_per_s = 1}) {  // 6 ms each
    lay_out({{2}, {1}, {0}});
  }

  void lay_out(const BucketPlan& plan) {
    parameters_.clear();
    for (const std::vector<std::size_t>& members : plan) {
      for (std::size_t i = 0; i < members.size(); ++i) {
        parameters_.emplace_back(Tensor::zeros({256}), true,
                                 message_of(parameters_.size(), ".weight"));
      }
    }
    buckets_ = make_buckets(parameters_, plan);
    order = in_bucket_order(std::vector<std::size_t>(buckets_.size(), 1));
  }

  void backward() {
    watcher.backward_begins();
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      std::this_thread::sleep_for(std::chrono::milliseconds(comm_.rank() == 0 ? 0 : 20));
      watcher.launched(b, buckets_[b], comm_.all_reduce(buckets_[b].grads));
    }
    watcher.backward_ended();
  }

  void expect_plan_after(int backwards) {
    const std::vector<LaunchItem> before = order;
    for (int i = 0; i < backwards; ++i) {
      backward();
      EXPECT_EQ(order, before) << "still watching, rank " << comm_.rank();
    }
    EXPECT_TRUE(comm_.event_times());
    backward();
    EXPECT_NE(order, before) << "rank " << comm_.rank();
    EXPECT_FALSE(comm_.event_times());
    EXPECT_TRUE(comm_.take_collectives().empty()) << "nobody had asked for records";
  }

 private:
  EmulatedLinkCommunicator comm_;
  std::vector<autograd::Variable> parameters_;
  std::vector<Bucket> buckets_;

 public:
  std::vector<LaunchItem> order;
  PriorityOrder watcher{std::make_unique<Silent>(), buckets_, comm_, order};
};

TEST(PriorityOrder, IsPlannedOnceFromWhatRankZeroSaw) {
  test::thread_world(2, [](Communicator& comm) {
    Watched watched(comm);
    watched.expect_plan_after(5);
    EXPECT_THAT(watched.order, ElementsAre(LaunchItem{0, 0}, LaunchItem{2, 0}, LaunchItem{1, 0}));
  });
}

TEST(PriorityOrder, ABucketIsNeededWhenTheFirstOfItsParametersIs) {
  for (const BucketPlan& plan :
       {BucketPlan{{4}, {2, 1}, {0, 3}}, BucketPlan{{4}, {1, 2}, {3, 0}}}) {
    test::thread_world(2, [&](Communicator& comm) {
      Watched watched(comm);
      watched.lay_out(plan);
      watched.expect_plan_after(5);
      EXPECT_THAT(watched.order, ElementsAre(LaunchItem{0, 0}, LaunchItem{2, 0}, LaunchItem{1, 0}));
    });
  }
}

TEST(PriorityOrder, ABackwardThatFailsAloneInsideNoSyncLeavesTheRanksInStep) {
  test::thread_world(2, [](Communicator& comm) {
    Watched watched(comm);
    for (int i = 0; i < 4; ++i) {
      watched.backward();
    }
    if (comm.rank() == 1) {
      watched.watcher.reset();  // of a backward that did not begin here, because it was no_sync()
    }
    watched.expect_plan_after(1);
  });
}

TEST(PriorityOrder, OneThatFailsWhileItIsWatchedIsNotCounted) {
  test::thread_world(2, [](Communicator& comm) {
    Watched watched(comm);
    for (int i = 0; i < 4; ++i) {
      watched.backward();
    }
    watched.watcher.backward_begins();
    watched.watcher.reset();
    watched.expect_plan_after(1);
  });
}

TEST(PriorityOrder, BeginsAnewWithOtherBuckets) {
  test::thread_world(2, [](Communicator& comm) {
    Watched watched(comm);
    watched.lay_out({{2, 1, 0}});
    for (int i = 0; i < 4; ++i) {
      watched.backward();
    }
    watched.lay_out({{2}, {1}, {0}});
    watched.watcher.buckets_changed();
    watched.expect_plan_after(4);
  });
}

}  // namespace
}  // namespace brigade::dist
