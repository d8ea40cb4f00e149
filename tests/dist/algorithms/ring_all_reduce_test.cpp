#include "dist/algorithms/ring_all_reduce.h"

#include <gmock/gmock.h>

namespace brigade::dist {
namespace {

using testing::ElementsAre;

/// One rank without peers, which notes what it is to send and receive.
class Notes final : public Collectives {
 public:
  Notes(int rank, int size, const Tensor& tensor)
      : Collectives(rank, size), first(tensor.data<float>()) {}

  const float* first;
  std::vector<std::int64_t> sent;  // the chunk of `tensor` in each step's message
  std::vector<int> peers;

 protected:
  void do_sum(const Tensor& /*tensor*/) override {}
  void do_exchange(std::span<const Message> outgoing, std::span<const Message> incoming,
                   const OnArrival& /*arrived*/) override {
    EXPECT_EQ(incoming.size(), 1U);
    sent.push_back((outgoing[0].tensor.data<float>() - first) / kShareUnit);
    peers.push_back(outgoing[0].peer);
  }
};

TEST(RingAllReduce, NeedsTwoPhasesOfNMinusOneStepsAndPassesOnWhatItReceivedLast) {
  const Tensor chunks = Tensor::zeros({4 * kShareUnit});
  Notes ranks(1, 4, chunks);
  RingAllReduce().run(ranks, chunks);
  EXPECT_THAT(ranks.sent, ElementsAre(1, 0, 3, 2, 1, 0));
  EXPECT_THAT(ranks.peers, testing::Each(2));
}

}  // namespace
}  // namespace brigade::dist
