#include "dist/comm/collectives.h"

#include <gmock/gmock.h>

#include "core/runtime/context.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using testing::ElementsAre;

/// What `rank` writes into its letters.
Tensor letter(int rank, int number) {
  return Tensor::from(std::vector<float>{static_cast<float>(10 * rank + number)}, {1});
}

TEST(Collectives, ExchangeDeliversInOrderAndToTheRightRank) {
  test::thread_world(3, [](Communicator& comm) {
    const int next = (comm.rank() + 1) % 3;
    const int previous = (comm.rank() + 2) % 3;
    const std::vector<Message> incoming{{previous, letter(9, 9)}, {previous, letter(9, 9)}};
    const Work work = comm.enqueue(letter(0, 0), "shift", [&](Collectives& ranks) {
      ranks.exchange(
          std::vector<Message>{{next, letter(comm.rank(), 1)}, {next, letter(comm.rank(), 2)}},
          incoming);
    });
    comm.wait(work);
    EXPECT_EQ(incoming[0].tensor.item(), 10 * previous + 1);
    EXPECT_EQ(incoming[1].tensor.item(), 10 * previous + 2);
  });
}

TEST(Collectives, ARankWithNothingToSendNeedNotExchange) {
  test::thread_world(3, [](Communicator& comm) {
    const Tensor box = letter(comm.rank(), 0);
    const Work work = comm.enqueue(box, "0 to 1", [&](Collectives& ranks) {
      if (ranks.rank() == 0) {
        ranks.exchange(std::vector<Message>{{1, box}}, {});
      } else if (ranks.rank() == 1) {
        ranks.exchange({}, std::vector<Message>{{0, box}});
      }
    });
    comm.wait(work);
    EXPECT_EQ(box.item(), comm.rank() == 2 ? 20.0 : 0.0);
  });
}

TEST(Collectives, CountsWhatARankSends) {
  test::thread_world(4, [](Communicator& comm) {
    const Tensor eight_bytes = Tensor::zeros({2});
    comm.blocking_all_reduce(eight_bytes);
    EXPECT_EQ(test::sum_over_ranks(comm, comm.bytes_sent()), 48U) << "2 (N-1) times 8 bytes";
    const std::uint64_t before = comm.bytes_sent();
    const int other = comm.rank() ^ 1;
    const Work work = comm.enqueue(eight_bytes, "pairs", [&](Collectives& ranks) {
      ranks.exchange(std::vector<Message>{{other, eight_bytes}},
                     std::vector<Message>{{other, Tensor::zeros({2})}});
    });
    comm.wait(work);
    EXPECT_EQ(comm.bytes_sent() - before, 8U);
  });
}

/// Rank 0 of two, as on a GPU: an exchange returns before it has begun.
class Enqueued final : public Collectives {
 public:
  Enqueued() : Collectives(0, 2) {}
  const std::byte* memory() const { return memory_; }

 protected:
  void do_sum(const Tensor& /*tensor*/) override {}
  void do_exchange(std::span<const Message> /*outgoing*/, std::span<const Message> incoming,
                   const OnArrival& /*arrived*/) override {
    incoming.front().tensor.zero();
    memory_ = incoming.front().tensor.bytes();
  }

 private:
  const std::byte* memory_ = nullptr;
};

TEST(Collectives, ReduceScatterKeepsItsMemoryBecauseAGpuMayStillBeReceiving) {
  Enqueued ranks;
  const Tensor sent = Tensor::zeros({32});
  ranks.reduce_scatter(sent);
  const Tensor of_another_stream = Tensor::empty({16});
  EXPECT_NE(of_another_stream.bytes(), ranks.memory());
}

/// Notices the first arrival alone.
class HalfDeaf final : public Collectives {
 public:
  HalfDeaf() : Collectives(0, 2) {}

 protected:
  void do_sum(const Tensor& /*tensor*/) override {}
  void do_exchange(std::span<const Message> /*outgoing*/, std::span<const Message> /*incoming*/,
                   const OnArrival& arrived) override {
    arrived(0);
  }
};

TEST(Collectives, ReportsWhatTheTransportDidNotNotice) {
  const Message message{1, Tensor::zeros({1})};
  std::vector<std::size_t> arrived;
  HalfDeaf().exchange({}, std::vector<Message>{message, message, message},
                      [&](std::size_t i) { arrived.push_back(i); });
  EXPECT_THAT(arrived, testing::ElementsAre(0, 1, 2));
}

/// Sums by sending everything to rank 0 and back.
class ThroughRankZero final : public AllReduce {
 public:
  std::string name() const override { return "through rank 0"; }
  void run(Collectives& ranks, const Tensor& tensor) override {
    std::vector<Message> parts;
    for (int rank = 1; rank < ranks.size(); ++rank) {
      parts.push_back({rank, Tensor::empty_like(tensor)});
    }
    if (ranks.rank() > 0) {
      ranks.exchange(std::vector<Message>{{0, tensor}}, {});
      ranks.exchange({}, std::vector<Message>{{0, tensor}});
      return;
    }
    ranks.exchange({}, parts);
    for (Message& part : parts) {
      tensor.data<float>()[0] += part.tensor.data<float>()[0];
      part.tensor = tensor;
    }
    ranks.exchange(parts, {});
  }
};

TEST(Collectives, ACommunicatorReducesByTheAlgorithmItIsGiven) {
  test::thread_world(3, [](Communicator& comm) {
    comm.use(std::make_unique<ThroughRankZero>());
    const Tensor value = letter(comm.rank(), 1);
    comm.blocking_all_reduce(value);
    EXPECT_EQ(value.item(), 1 + 11 + 21);
    EXPECT_EQ(comm.bytes_sent(), comm.rank() == 0 ? 8U : 4U) << "and not by the library's sum";
    EXPECT_EQ(comm.description(), "threads, through rank 0");
  });
}

}  // namespace
}  // namespace brigade::dist
