// The sockets, over ranks that are threads of one process: they connect through loopback.
#include <arpa/inet.h>
#include <gmock/gmock.h>

#include "core/error.h"
#include "dist/sockets/socket_address.h"
#include "dist/sockets/socket_communicator.h"
#include "tests/support/all_reduces.h"
#include "tests/support/environment.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using test::socket_world;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(SocketCommunicator, SumsWithEveryAlgorithm) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    SCOPED_TRACE(ranks);
    socket_world(ranks, [](Communicator& comm) {
      for (const char* algorithm : {"", "ring", "halving", "tree", "ordered"}) {
        if (*algorithm != '\0') {
          comm.use(test::make_all_reduce(algorithm));
        }
        for (const std::int64_t numel : {0, 1, comm.size() + 1, 100003}) {
          test::expect_all_reduce_sums(comm, numel, DType::f32);
        }
        test::expect_all_reduce_sums(comm, 100003, DType::f64);
      }
    });
  }
}

TEST(SocketCommunicator, MovesMoreThanTheKernelsBuffersHold) {
  socket_world(2, [](Communicator& comm) {
    test::expect_all_reduce_sums(comm, 4'000'000, DType::f32);  // 8 MB per message of all-gather
  });
}

TEST(SocketCommunicator, CountsWhatItSendsOnce) {
  socket_world(4, [](Communicator& comm) {
    comm.blocking_all_reduce(Tensor::zeros({4000}));
    EXPECT_EQ(comm.bytes_sent(), 2U * 3U * 16000U / 4U) << "the ring's bytes and no more";
  });
}

TEST(SocketCommunicator, ReportsArrivalsInTheOrderOfTheMessages) {
  socket_world(3, [](Communicator& comm) {
    const Tensor mine = Tensor::from(std::vector<float>(20'000, 1.0F), {20'000});
    std::vector<Message> outgoing;
    std::vector<Message> incoming;
    for (int round = 0; round < 3; ++round) {
      for (int peer = 2; peer >= 0; --peer) {
        if (peer != comm.rank()) {
          outgoing.push_back({peer, mine});
          incoming.push_back({peer, Tensor::zeros({20'000})});
        }
      }
    }
    std::vector<std::size_t> order;
    const Work work = comm.enqueue(mine, "all to all", [&](Collectives& ranks) {
      ranks.exchange(outgoing, incoming, [&](std::size_t i) {
        order.push_back(i);
        EXPECT_THAT(incoming[i].tensor.to_vector<float>(), testing::Each(1.0F)) << "it is complete";
      });
    });
    comm.wait(work);
    EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4, 5));
  });
}

TEST(SocketCommunicator, NamesAPeerThatIsGone) {
  for (const bool sending : {false, true}) {
    socket_world(2, [sending](Communicator& comm) {
      if (comm.rank() == 0) {
        const Tensor tensor = Tensor::zeros({10'000'000});
        const std::vector<Message> message{{1, tensor}};
        const Work work = comm.enqueue(tensor, "to a rank that is gone", [=](Collectives& ranks) {
          if (sending) {
            ranks.exchange(message, {});
          } else {
            ranks.exchange({}, message);
          }
        });
        EXPECT_THAT([&] { comm.wait(work); }, ThrowsMessage<Error>(HasSubstr("rank 1 is gone")));
      }
    });
  }
}

TEST(SocketCommunicator, AFailingRankDoesNotWaitForItsPeers) {
  EXPECT_THAT(
      [] {
        socket_world(2, [](Communicator& comm) {
          if (comm.rank() == 1) {
            const Work never = comm.all_reduce(Tensor::zeros({1000}));
            throw Error("rank 1 is broken");
          }
          comm.barrier();  // and joins no all-reduce
        });
      },
      ThrowsMessage<Error>(HasSubstr("rank")));
}

TEST(SocketCommunicator, SaysThroughWhichAddressItGoes) {
  socket_world(2, [](Communicator& comm) {
    EXPECT_EQ(comm.description(), "TCP sockets (127.0.0.1)");
    comm.use(test::make_all_reduce("ring"));
    EXPECT_EQ(comm.description(), "TCP sockets (127.0.0.1), ring");
  });
}

TEST(SocketCommunicator, RefusesAnInterfaceThatIsNotThere) {
  const test::EnvironmentVariable name("BRIGADE_SOCKET_IFNAME", "nosuch0");
  EXPECT_THAT([] { socket_world(1, [](Communicator&) {}); },
              ThrowsMessage<UsageError>(HasSubstr("BRIGADE_SOCKET_IFNAME=nosuch0: expected an")));
}

/// A rank on `machine` with these addresses, each in a /24 network.
Endpoint card(char machine, const std::vector<const char*>& addresses) {
  Endpoint result;
  result.machine[0] = machine;
  for (const char* address : addresses) {
    result.interfaces[result.interface_count++] = {inet_addr(address), inet_addr("255.255.255.0")};
  }
  return result;
}

std::vector<std::string> addresses_of(const Endpoint& peer, const Endpoint& mine,
                                      const std::vector<Endpoint>& all) {
  std::vector<std::string> texts;
  for (const std::uint32_t address : candidates(mine, peer, all)) {
    texts.push_back(address_text(address));
  }
  return texts;
}

TEST(SocketAddress, IsTheOneInASharedSubnetFirst) {
  const Endpoint a = card('a', {"192.168.1.1", "10.0.0.1"});
  const Endpoint b = card('b', {"192.168.2.2", "10.0.0.2"});
  EXPECT_THAT(addresses_of(b, a, {a, b}), ElementsAre("10.0.0.2", "192.168.2.2"));
}

TEST(SocketAddress, IsNotABridgeThatEveryHostHas) {
  const Endpoint a = card('a', {"172.17.0.1", "10.0.0.1"});
  const Endpoint b = card('b', {"172.17.0.1", "10.0.0.2"});
  EXPECT_THAT(addresses_of(b, a, {a, b}), ElementsAre("10.0.0.2"));
}

TEST(SocketAddress, IsLoopbackOnOneMachine) {
  const Endpoint a = card('a', {"10.0.0.1"});
  EXPECT_THAT(addresses_of(a, a, {a, a}), ElementsAre("127.0.0.1"));
}

TEST(SocketAddress, IsTheOnlyOneAtWhichThePeerListens) {
  Endpoint a = card('a', {"10.0.0.1", "192.168.1.1"});
  const Endpoint b = card('b', {"192.168.1.2"});
  a.address = inet_addr("10.0.0.1");
  EXPECT_THAT(addresses_of(a, b, {a, b}), ElementsAre("10.0.0.1"));
  EXPECT_THAT(addresses_of(a, a, {a, b}), ElementsAre("10.0.0.1"));
}

}  // namespace
}  // namespace brigade::dist
