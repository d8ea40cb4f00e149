#include "apps/training/link_choice.h"

#include <gtest/gtest.h>

#include "dist/comm/gather.h"
#include "nn/data/synthetic.h"
#include "tests/support/thread_world.h"

namespace brigade::apps {
namespace {

constexpr std::size_t kBytes = 40'000'000;
constexpr std::size_t kBuckets = 5;

double cost_ms(const dist::LinkModel& link, int ranks) {
  const double sent = 2.0 * (ranks - 1) / ranks * static_cast<double>(kBytes / kBuckets);
  return static_cast<double>(kBuckets) * link.ring_ms(ranks, sent);
}

TEST(LinkAsSlowAs, TakesThatLong) {
  for (const int ranks : {2, 4, 16}) {
    for (const double ms : {0.05, 8.0, 900.0}) {
      const dist::LinkModel link = link_as_slow_as(ms, kBytes, kBuckets, ranks);
      EXPECT_NEAR(cost_ms(link, ranks), ms, 1e-9 * ms) << ranks;
      EXPECT_LE(2.0 * (ranks - 1) * kBuckets * link.alpha_us * 1e-3, 0.1 * ms * (1 + 1e-9));
    }
  }
  EXPECT_EQ(link_as_slow_as(900.0, kBytes, kBuckets, 2).alpha_us, 10.0) << "no slower than real";
}

TEST(ChooseLink, IsTheSameOnAllRanks) {
  const data::DataSplits data = data::make_synthetic({.in = 32, .out = 8}, 16);
  const Console silent(false, Console::Target::err, "never");
  test::thread_world(2, [&](dist::Communicator& comm) {
    Options options;
    options.hidden = {32, 32};
    options.batch = 4;
    const auto all =
        dist::all_gather_values(comm, choose_link(options, *data.train, kCpu, comm, silent));
    EXPECT_EQ(all[0].alpha_us, all[1].alpha_us);
    EXPECT_EQ(all[0].gigabytes_per_s, all[1].gigabytes_per_s);
    EXPECT_GT(all[0].gigabytes_per_s, 0.0);
  });
}

}  // namespace
}  // namespace brigade::apps
