// Other processes connect to a rank's port before the ranks do.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>

#include "core/error.h"
#include "dist/sockets/handshake.h"
#include "dist/sockets/socket_address.h"
#include "dist/sockets/socket_communicator.h"
#include "dist/sockets/socket_connect.h"
#include "tests/support/small_training.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// Where rank 0 listens, and what rank 1 will say to it.
struct Door {
  Endpoint endpoint;
  Hello hello;
};
using Visit = std::function<void(const Door&)>;

/// The control of a SocketCommunicator. On rank 1, `visit` comes between the moment when it knows
/// everything and its call.
class VisitedControl final : public Communicator {
 public:
  VisitedControl(Communicator& control, Visit visit)
      : Communicator(control.rank(), control.size()), control_(control), visit_(std::move(visit)) {}

  void barrier() override { control_.barrier(); }
  std::vector<std::byte> all_gather_bytes(std::span<const std::byte> mine) override {
    std::vector<std::byte> all = control_.all_gather_bytes(mine);
    if (all.size() == 2 * sizeof(Endpoint)) {
      std::memcpy(&door_.endpoint, all.data(), sizeof(Endpoint));
    }
    return all;
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    control_.broadcast(bytes, root);
    if (bytes.size() == sizeof(JobToken) && rank() == 1) {
      std::ranges::copy(bytes, door_.hello.token.begin());
      door_.hello.members = 2;
      door_.hello.rank = 1;
      visit_(door_);
    }
  }

 protected:
  std::string transport() const override { return "visited"; }
  Stream& comm_stream() override { throw Error("only a control"); }
  void do_sum(const Tensor& /*tensor*/) override {}
  void do_exchange(std::span<const Message> /*outgoing*/, std::span<const Message> /*incoming*/,
                   const OnArrival& /*arrived*/) override {}

 private:
  Communicator& control_;
  Visit visit_;
  Door door_;
};

/// Both ranks' weights after some steps over sockets, and how long that took.
struct Outcome {
  std::vector<float> weights;
  double seconds = 0.0;
};

Outcome train_visited(const Visit& visit) {
  Outcome outcome;
  const auto start = std::chrono::steady_clock::now();
  test::thread_world(2, [&](Communicator& comm) {
    SocketCommunicator sockets(std::make_unique<VisitedControl>(comm, visit));
    const std::vector<float> weights = test::train(sockets, {});
    if (comm.rank() == 0) {
      outcome.weights = weights;
    }
  });
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  outcome.seconds = passed.count();
  return outcome;
}

FileDescriptor connect_to(const Door& door, const char* address = "127.0.0.1") {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = inet_addr(address);
  name.sin_port = door.endpoint.port;
  const int result = connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name);
  return result == 0 ? std::move(socket) : FileDescriptor();
}

void say(const FileDescriptor& socket, std::span<const std::byte> bytes) {
  const ssize_t sent = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  EXPECT_GT(sent, 0);
}

void say(const FileDescriptor& socket, const Hello& hello) {
  say(socket, std::as_bytes(std::span(&hello, 1)));
}

/// Whether the other end has closed the connection, within a second, and has not said a word.
bool turned_away(const FileDescriptor& socket) {
  const timeval second{.tv_sec = 1, .tv_usec = 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  std::byte answer{};
  const ssize_t count = recv(socket.get(), &answer, 1, 0);
  return count == 0 || (count < 0 && errno == ECONNRESET);
}

TEST(Strangers, WhoSayNothingHoldUpNobody) {
  std::vector<FileDescriptor> silent;
  const Outcome alone = train_visited([](const Door&) {});
  const Outcome visited = train_visited([&](const Door& door) {
    for (int i = 0; i < 200; ++i) {  // more than wait at a time
      silent.push_back(connect_to(door));
      EXPECT_TRUE(silent.back().valid());
    }
    for (const FileDescriptor& stranger : std::span(silent).last(20)) {
      say(stranger, std::as_bytes(std::span("half a", 6)));
    }
  });
  EXPECT_EQ(visited.weights, alone.weights);
  EXPECT_LT(visited.seconds, 4.0) << "less than the patience with one of them";
  EXPECT_TRUE(turned_away(silent.back()));
}

TEST(Strangers, WhoSaySomethingElseAreTurnedAway) {
  const Outcome alone = train_visited([](const Door&) {});
  const std::vector<std::byte> garbage(1 << 20, std::byte{0xff});  // also a huge length or rank
  const Outcome visited = train_visited([&](const Door& door) {
    const FileDescriptor loud = connect_to(door);
    say(loud, garbage);
    EXPECT_TRUE(turned_away(loud));
    for (std::size_t i = 0; i < sizeof(JobToken); ++i) {
      Hello wrong = door.hello;
      wrong.token[i] ^= std::byte{1};
      const FileDescriptor stranger = connect_to(door);
      say(stranger, wrong);
      EXPECT_TRUE(turned_away(stranger)) << "byte " << i;
    }
  });
  EXPECT_EQ(visited.weights, alone.weights);
}

TEST(Strangers, AreAlsoRanksThatDoNotExistOrDoNotCall) {
  train_visited([&](const Door& door) {
    for (const int rank : {-1, 0, 2, std::numeric_limits<int>::max()}) {
      const FileDescriptor stranger = connect_to(door);
      say(stranger, Hello{.token = door.hello.token, .members = 2, .rank = rank});
      EXPECT_TRUE(turned_away(stranger)) << rank;
    }
  });
}

TEST(Strangers, OnOtherInterfacesReachNobodyOnOneMachine) {
  train_visited([](const Door& door) {
    EXPECT_FALSE(connect_to(door, "127.0.0.2").valid());
    for (const Interface& interface : door.endpoint.known()) {
      EXPECT_FALSE(connect_to(door, address_text(interface.address).c_str()).valid());
    }
  });
}

TEST(Strangers, WhoAnswerInPlaceOfARankAreNotTakenForIt) {
  test::thread_world(2, [](Communicator& comm) {
    const Rendezvous rendezvous = open_rendezvous(comm);
    if (comm.rank() == 1) {
      EXPECT_THAT(
          [&] {
            connect_members(rendezvous, std::array{0, 1}, std::chrono::seconds(5));
          },
          ThrowsMessage<PeerLost>(HasSubstr("127.0.0.1 (somebody else answers)")));
      comm.barrier();
      return;
    }
    pollfd entry{.fd = rendezvous.listener.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&entry, 1, 5000), 1);
    const FileDescriptor called(accept(rendezvous.listener.get(), nullptr, nullptr));
    say(called, Hello{.token = draw_job_token(), .members = 2, .rank = 0});
    comm.barrier();
  });
}

TEST(Strangers, DoNotKnowTheTokenOfAnotherJob) {
  EXPECT_NE(draw_job_token(), draw_job_token());
}

/// Two ends of a connection.
std::array<FileDescriptor, 2> connection() {
  std::array<int, 2> ends{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

TEST(Caller, GivesAHelloThatComesInParts) {
  const Hello hello{.token = draw_job_token(), .members = 4, .rank = 3};
  const auto bytes = std::as_bytes(std::span(&hello, 1));
  auto [own, peer] = connection();
  Caller caller(std::move(own));
  EXPECT_FALSE(caller.read().has_value());
  EXPECT_FALSE(caller.gone());
  say(peer, bytes.first(5));
  EXPECT_FALSE(caller.read().has_value());
  say(peer, bytes.subspan(5));
  const std::optional<Hello> read = caller.read();
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(rank_of(*read, hello), 3);
}

TEST(Caller, IsGoneWhenTheStreamEnds) {
  auto [own, peer] = connection();
  Caller caller(std::move(own));
  EXPECT_FALSE(caller.read().has_value());
  ASSERT_EQ(shutdown(peer.get(), SHUT_WR), 0);  // close(): see tests/fuzz/handshake.cpp
  EXPECT_FALSE(caller.read().has_value());
  EXPECT_TRUE(caller.gone());
}

TEST(Caller, IsGoneWhenItsTimeIsOver) {
  auto [own, peer] = connection();
  Caller caller(std::move(own), std::chrono::seconds(0));
  EXPECT_FALSE(caller.read().has_value());
  EXPECT_TRUE(caller.gone());
}

TEST(RankOf, IsNothingForAnotherGroupOfTheSameJob) {
  const Hello mine{.token = draw_job_token(), .members = 3, .rank = 0};
  EXPECT_EQ(rank_of({.token = mine.token, .members = 3, .rank = 2}, mine), 2);
  EXPECT_EQ(rank_of({.token = mine.token, .members = 4, .rank = 2}, mine), std::nullopt);
}

}  // namespace
}  // namespace brigade::dist
