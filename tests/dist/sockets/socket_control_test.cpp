// The host side of ranks that do without MPI.
#include "dist/sockets/socket_control.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "dist/comm/gather.h"
#include "dist/sockets/socket_communicator.h"
#include "dist/sockets/socket_connect.h"
#include "tests/support/all_reduces.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Runs fn(communicator) on `ranks` threads that talk through a SocketControl.
void control_world(int ranks, const std::function<void(Communicator&)>& fn) {
  test::thread_world(ranks, [&](Communicator& threads) {
    SocketControl control(threads.rank(), connect_all(threads));
    fn(control);
  });
}

TEST(SocketControl, GathersInTheOrderOfTheRanks) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    control_world(ranks, [](Communicator& comm) {
      std::vector<int> expected;
      for (int rank = 0; rank < comm.size(); ++rank) {
        expected.push_back(10 * rank);
      }
      EXPECT_EQ(all_gather_values(comm, 10 * comm.rank()), expected);
      comm.barrier();
      EXPECT_EQ(all_gather_sequences(comm, std::string(comm.rank(), 'x')).back(),
                std::string(comm.size() - 1, 'x'));
    });
  }
}

TEST(SocketControl, BroadcastsFromAnyRank) {
  control_world(4, [](Communicator& comm) {
    for (int root = 0; root < comm.size(); ++root) {
      std::vector<int> values{comm.rank(), comm.rank() + 7};
      comm.broadcast(std::as_writable_bytes(std::span(values)), root);
      EXPECT_THAT(values, ElementsAre(root, root + 7));
    }
  });
}

TEST(SocketControl, SumsByItself) {
  control_world(3,
                [](Communicator& comm) { test::expect_all_reduce_sums(comm, 1000, DType::f32); });
}

TEST(SocketControl, CarriesASocketCommunicator) {
  test::thread_world(3, [](Communicator& threads) {
    SocketCommunicator comm(std::make_unique<SocketControl>(threads.rank(), connect_all(threads)));
    test::expect_all_reduce_sums(comm, 1000, DType::f32);
    comm.barrier();
  });
}

TEST(SocketControl, NamesAPeerThatIsGone) {
  control_world(3, [](Communicator& comm) {
    if (comm.rank() != 1) {
      EXPECT_THAT([&] { comm.barrier(); }, ThrowsMessage<PeerLost>(HasSubstr("rank 1 is gone")));
    }
  });
}

}  // namespace
}  // namespace brigade::dist
