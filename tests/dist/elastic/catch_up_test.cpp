#include "dist/elastic/catch_up.h"

#include <gmock/gmock.h>

#include "dist/comm/gather.h"
#include "dist/ddp/replica_check.h"
#include "dist/sockets/socket_connect.h"
#include "dist/sockets/socket_control.h"
#include "optim/adam.h"
#include "tests/support/small_model.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

void train_a_step(nn::Module& model, optim::Optimizer& optimizer) {
  optimizer.zero_grad();
  test::backward_once(model, 6, 3);
  optimizer.step();
}

TEST(CatchUp, TakesTheStateOfTheRankThatIsFurthest) {
  test::thread_world(3, [](Communicator& comm) {
    const auto model = test::make_mlp({6, 3});
    optim::Adam adam(model->parameters(), {.lr = 0.1});
    train_a_step(*model, adam);
    const std::uint64_t before = hash_parameters(model->parameters());
    if (comm.rank() == 1) {
      train_a_step(*model, adam);
    }
    const std::int64_t mine = comm.rank() == 1 ? 2 : 1;
    EXPECT_EQ(catch_up(mine, state_of(model->parameters(), adam), comm), 2);
    EXPECT_NE(hash_parameters(model->parameters()), before);
    train_a_step(*model, adam);  // the same everywhere only if Adam's moments are
    const auto hashes = all_gather_values(comm, hash_parameters(model->parameters()));
    EXPECT_THAT(hashes, testing::Each(hashes.front()));
  });
}

TEST(CatchUp, KeepsWhatThereIsIfTheRankThatIsFurthestDiesMidway) {
  test::thread_world(3, [](Communicator& threads) {
    SocketControl comm(threads.rank(), connect_all(threads));
    const auto model = test::make_mlp({6, 3});
    optim::Adam adam(model->parameters(), {.lr = 0.1});
    const std::uint64_t before = hash_parameters(model->parameters());
    if (comm.rank() == 1) {
      std::int64_t mine = 1;
      all_gather_values(comm, mine);
      const Tensor ahead = Tensor::from(std::vector<float>(18, 5.0F), {3, 6});
      comm.broadcast({ahead.bytes(), ahead.nbytes()}, 1);  // the first weight, and no more
      return;
    }
    EXPECT_THROW(catch_up(0, state_of(model->parameters(), adam), comm), PeerLost);
    EXPECT_EQ(hash_parameters(model->parameters()), before);
  });
}

}  // namespace
}  // namespace brigade::dist
