#include <gtest/gtest.h>

#include "apps/doctor/doctor.h"
#include "dist/comm/gather.h"
#include "tests/support/thread_world.h"

namespace brigade::apps {
namespace {

TEST(SlowLink, IsThatOfTheHostWhoseFasterLinkIsSlow) {
  const auto slow = slow_link_of({9.0, 0.0, 40.0, 10.0, 0.0, 11.0});
  ASSERT_TRUE(slow.has_value());
  EXPECT_EQ(slow->rank, 2);
  EXPECT_EQ(slow->reason, Straggler::Reason::network);
  EXPECT_DOUBLE_EQ(slow->ms, 40.0);
  EXPECT_DOUBLE_EQ(slow->others, 10.0);
}

TEST(SlowLink, IsNoneWhereLinksDifferLittleOrHostsAreFew) {
  EXPECT_FALSE(slow_link_of({9.0, 10.0, 14.0}).has_value());
  EXPECT_TRUE(slow_link_of({9.0, 11.0, 15.0}).has_value());
  EXPECT_FALSE(slow_link_of({0.1, 0.1, 1.0}).has_value()) << "by chance";
  EXPECT_FALSE(slow_link_of({9.0, 90.0}).has_value()) << "whose is it?";
  EXPECT_FALSE(slow_link_of({0.0, 0.0, 0.0, 0.0}).has_value()) << "one host";
}

// Even and odd numbers of hosts, of one rank or two: every pair finds its partner.
TEST(SlowLink, IsMeasuredOnAnyNumberOfHosts) {
  for (const int hosts : {1, 2, 3, 4, 5, 6, 7}) {
    for (const int per_host : {1, 2}) {
      test::thread_world(hosts * per_host, [&](dist::Communicator& comm) {
        dist::Placement place;
        place.node_rank = comm.rank() / per_host;
        const auto slow = find_slow_link(place, kCpu, comm);
        EXPECT_TRUE(!slow || (hosts >= 3 && slow->rank % per_host == 0));
        EXPECT_EQ(dist::all_gather_values(comm, 1).size(), hosts * per_host) << "still in step";
      });
    }
  }
}

}  // namespace
}  // namespace brigade::apps
