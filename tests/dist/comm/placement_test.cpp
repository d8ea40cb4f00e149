#include "dist/comm/placement.h"

#include <gmock/gmock.h>

#include "tests/support/expect_error.h"

namespace brigade::dist {
namespace {

std::vector<int> all(std::span<const int> host_of, int Placement::*member) {
  std::vector<int> values;
  for (int rank = 0; rank < static_cast<int>(host_of.size()); ++rank) {
    values.push_back(placement_of(rank, host_of).*member);
  }
  return values;
}

TEST(Placement, RanksDealtOutOneByOneAreCountedPerNode) {
  const std::vector<int> hosts{7, 3, 7, 3, 7};
  EXPECT_THAT(all(hosts, &Placement::local_rank), testing::ElementsAre(0, 0, 1, 1, 2));
  EXPECT_THAT(all(hosts, &Placement::local_size), testing::ElementsAre(3, 2, 3, 2, 3));
  EXPECT_THAT(all(hosts, &Placement::node_rank), testing::ElementsAre(0, 1, 0, 1, 0))
      << "nodes are numbered by their lowest rank, not by the hosts' numbers";
  EXPECT_THAT(all(hosts, &Placement::hosts), testing::Each(2));
}

TEST(Placement, BlocksAndOneHost) {
  EXPECT_THAT(all(std::vector<int>{0, 0, 2, 2, 4}, &Placement::node_rank),
              testing::ElementsAre(0, 0, 1, 1, 2));
  EXPECT_THAT(all(std::vector<int>{0, 0, 0}, &Placement::local_rank),
              testing::ElementsAre(0, 1, 2));
  EXPECT_EQ(placement_of(0, std::vector<int>{0}).hosts, 1);
}

TEST(Placement, AGridNeedsEquallyManyRanksOnEveryNode) {
  EXPECT_NO_THROW(check_equal_nodes(std::vector<int>{0, 1, 0, 1}));
  EXPECT_ERROR_OF(UsageError, check_equal_nodes(std::vector<int>{0, 0, 2}),
                  "comm: hierarchical needs equally many ranks on every host, but that of rank 0 "
                  "has 2 and that of rank 2 has 1; start as many on each (mpirun --map-by "
                  "ppr:N:node) or use another --comm");
}

}  // namespace
}  // namespace brigade::dist
