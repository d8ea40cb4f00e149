#include "dist/launch/world.h"

#include <gtest/gtest.h>

#include "dist/comm/single_process.h"
#include "tests/support/expect_error.h"

namespace brigade::dist {
namespace {

World rank_five() {
  RankInfo ranks;
  ranks.rank = 5;
  ranks.size = 8;
  ranks.local_rank = 1;
  ranks.node_rank = 2;
  return {ranks, kCpu, std::make_shared<SingleProcessCommunicator>(kCpu)};
}

TEST(World, GivesItsNumbersByName) {
  const World world = rank_five();
  EXPECT_EQ(world.get("rank"), 5);
  EXPECT_EQ(world.get("grank"), 5);
  EXPECT_EQ(world.get("ws"), 8);
  EXPECT_EQ(world.get("lrank"), 1);
  EXPECT_EQ(world.get("node"), 2);
  EXPECT_EQ(world.get("pg"), 0);
  EXPECT_EQ(world.rank(), 5);
  EXPECT_EQ(world.size(), 8);
  EXPECT_EQ(world.local_rank(), 1);
  EXPECT_EQ(world.node(), 2);
}

TEST(World, ListsTheNamesItKnows) {
  EXPECT_ERROR(rank_five().get("world_size"),
               "World: expected rank, grank, ws, lrank, node or pg, got 'world_size'");
}

}  // namespace
}  // namespace brigade::dist
