#include "dist/need_order.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using testing::ElementsAre;

class Silent final : public BucketSink {
 public:
  void launched(std::size_t /*index*/, const Bucket& /*bucket*/, const Work& work) override {
    last_ = work;
  }
  void backward_ended() override { last_.done().synchronize(); }
  void reset() noexcept override {}

 private:
  Work last_;
};

/// Three layers over a slow link. To rank 0 they are ready at once and pile up; on rank 1 each
/// comes long after the one before has arrived, so that its own plan would change nothing.
TEST(NeedOrder, IsPlannedOnceFromWhatRankZeroSaw) {
  test::thread_world(2, [](Communicator& comm) {
    comm.emulate_link({.alpha_us = 3000, .gbps = 1});  // 6 ms each
    std::vector<autograd::Variable> parameters;
    for (const char* name : {"0.weight", "1.weight", "2.weight"}) {
      parameters.emplace_back(Tensor::zeros({256}), true, name);
    }
    const std::vector<Bucket> buckets = make_buckets(parameters, {{2}, {1}, {0}});
    std::vector<Send> order = in_bucket_order(std::vector<std::size_t>{1, 1, 1});
    NeedOrder watcher(std::make_unique<Silent>(), buckets, comm, order);
    const auto backward = [&] {
      watcher.backward_begins();
      for (std::size_t b = 0; b < buckets.size(); ++b) {
        std::this_thread::sleep_for(std::chrono::milliseconds(comm.rank() == 0 ? 0 : 20));
        watcher.launched(b, buckets[b], comm.all_reduce(buckets[b].grads));
      }
      watcher.backward_ended();
    };
    for (int i = 0; i < 5; ++i) {
      backward();
      EXPECT_THAT(order, ElementsAre(Send{0, 0}, Send{1, 0}, Send{2, 0})) << "still watching";
    }
    EXPECT_TRUE(comm.timed());
    backward();
    EXPECT_THAT(order, ElementsAre(Send{0, 0}, Send{2, 0}, Send{1, 0})) << "rank " << comm.rank();
    EXPECT_FALSE(comm.timed()) << "nobody else had switched it on";
  });
}

}  // namespace
}  // namespace brigade::dist
