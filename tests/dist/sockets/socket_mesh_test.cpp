// One rank of several that exchange with all others. The test is the others.
#include "dist/sockets/socket_mesh.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <future>
#include <memory>

namespace brigade::dist {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// A connection between two ranks of a test. The first end goes into a SocketMesh.
std::array<FileDescriptor, 2> connection() {
  std::array<int, 2> ends{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

/// True if something arrives at this end within 100 ms.
bool is_readable(const FileDescriptor& end) {
  pollfd entry{.fd = end.get(), .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 100) == 1;
}

/// Rank 0, which exchanges `bytes` with each of the others: the test.
class RankZero {
 public:
  RankZero(int ranks, std::int64_t bytes) : peers(1), bytes_(bytes) {
    std::vector<FileDescriptor> ends(1);
    std::vector<Message> outgoing;
    std::vector<Message> incoming;
    for (int peer = 1; peer < ranks; ++peer) {
      std::array<FileDescriptor, 2> both = connection();
      ends.push_back(std::move(both[0]));
      peers.push_back(std::move(both[1]));
      outgoing.push_back({peer, Tensor::zeros({bytes}, DType::u8)});
      incoming.push_back({peer, Tensor::zeros({bytes}, DType::u8)});
    }
    mesh_ = std::make_unique<SocketMesh>(0, std::move(ends));
    result_ = std::async(std::launch::async, [this, outgoing, incoming] {
      mesh_->exchange(outgoing, incoming, [](std::size_t) {});
    });
  }

  void send_from(std::size_t peer) const {
    const std::vector<std::byte> message(static_cast<std::size_t>(bytes_));
    EXPECT_EQ(write(peers[peer].get(), message.data(), message.size()), bytes_);
  }

  /// Throws what the exchange has thrown. The other ranks do not wait for it longer than 5 s.
  void finish() {
    if (result_.wait_for(std::chrono::seconds(5)) == std::future_status::timeout) {
      peers.clear();
    }
    result_.get();
  }

  std::vector<FileDescriptor> peers;  // their ends; rank 0 has none

 private:
  std::int64_t bytes_;
  std::unique_ptr<SocketMesh> mesh_;
  std::future<void> result_;
};

TEST(SocketMesh, ExchangesWithAllOthersInRounds) {
  RankZero rank(3, /*bytes=*/20'000);
  EXPECT_TRUE(is_readable(rank.peers[1])) << "the first round sends to rank 1";
  EXPECT_FALSE(is_readable(rank.peers[2])) << "the second round sends to rank 2";
  rank.send_from(2);
  EXPECT_TRUE(is_readable(rank.peers[2])) << "the first round is over";
  rank.send_from(1);
  rank.finish();
}

TEST(SocketMesh, SendsSmallMessagesToAllAtOnce) {
  RankZero rank(3, /*bytes=*/1000);
  EXPECT_TRUE(is_readable(rank.peers[1]));
  EXPECT_TRUE(is_readable(rank.peers[2]));
  rank.send_from(1);
  rank.send_from(2);
  rank.finish();
}

// Rank 0 waits in the second round for rank 2, and would send to rank 3 in the third.
TEST(SocketMesh, NamesAPeerThatIsGoneBeforeItsRound) {
  RankZero rank(4, /*bytes=*/20'000);
  rank.send_from(3);
  EXPECT_TRUE(is_readable(rank.peers[2])) << "the first round is over";
  // All that TCP shows of a process that has ended, until something is sent to it.
  shutdown(rank.peers[3].get(), SHUT_WR);
  EXPECT_THAT([&] { rank.finish(); }, ThrowsMessage<PeerLost>(HasSubstr("rank 3 is gone")));
}

}  // namespace
}  // namespace brigade::dist
