#include "dist/algorithms/ring_all_reduce.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "dist/algorithms/ring_trace.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using test::thread_world;
using testing::ElementsAre;
using testing::HasSubstr;

/// One number per chunk; rank r contributes 10^r, so the digits of a sum tell whose numbers are in
/// it.
Tensor digits(int ranks, int rank) {
  return Tensor::from(std::vector<double>(static_cast<std::size_t>(ranks), std::pow(10, rank)),
                      {ranks});
}

TEST(RingAllReduce, NeedsTwoPhasesOfNMinusOneSteps) {
  thread_world(4, [](Communicator& comm) {
    std::vector<bool> phases;
    std::vector<std::vector<double>> after;  // each step
    comm.use(std::make_unique<RingAllReduce>([&](const RingStep& step, const Tensor& tensor) {
      phases.push_back(step.gathering);
      after.push_back(tensor.to_vector<double>());
    }));
    comm.blocking_all_reduce(digits(4, comm.rank()));
    EXPECT_THAT(phases, ElementsAre(false, false, false, true, true, true));
    // A ring that stops here has one finished chunk per rank.
    EXPECT_EQ(std::count(after.at(2).begin(), after.at(2).end(), 1111.0), 1);
    EXPECT_EQ(after.at(2).at(static_cast<std::size_t>(comm.rank() + 1) % 4), 1111.0)
        << "rank r owns chunk r + 1";
    EXPECT_THAT(after.back(), testing::Each(1111.0));
  });
}

TEST(RingAllReduce, PassesOnTheChunkThatItReceivedLast) {
  thread_world(5, [](Communicator& comm) {
    int received = comm.rank();
    comm.use(std::make_unique<RingAllReduce>([&](const RingStep& step, const Tensor&) {
      EXPECT_EQ(step.sent, received);
      received = step.received;
    }));
    comm.blocking_all_reduce(digits(5, comm.rank()));
  });
}

TEST(RingTrace, ShowsEveryStepOfEveryRank) {
  thread_world(3, [](Communicator& comm) {
    const std::vector<std::string> lines = trace_ring(comm, kCpu);
    EXPECT_THAT(lines, testing::Contains("  rank 0 sends chunk 0 to rank 1, adds chunk 2 from rank "
                                         "2; has 001 001 101"));
    EXPECT_THAT(lines, testing::Contains("  rank 2 sends chunk 2 to rank 0, overwrites chunk 1 "
                                         "from rank 1; has 111 111 111"));
    EXPECT_THAT(lines, testing::Contains(HasSubstr("rank 0 owns chunk 1")));
    EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                            [](const std::string& line) {
                              return line.find(" sends chunk ") != std::string::npos;
                            }),
              3 * 4);
  });
}

TEST(RingTrace, OfOneRankSaysThatThereIsNothingToDo) {
  thread_world(1, [](Communicator& comm) {
    EXPECT_THAT(trace_ring(comm, kCpu), ElementsAre(HasSubstr("one rank")));
  });
}

}  // namespace
}  // namespace brigade::dist
