// Ranks as threads: the whole of dist/ without MPI, fast enough for sanitizers.
#include "tests/support/thread_world.h"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <vector>

#include "core/ops.h"
#include "dist/comm/gather.h"

namespace brigade::dist {
namespace {

using test::thread_world;
using testing::Each;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ThreadCommunicator, SumsOverRanks) {
  for (const int ranks : {1, 2, 3, 5}) {
    thread_world(ranks, [&](Communicator& comm) {
      Tensor values = Tensor::empty({100});
      ops::fill(comm.rank() + 1.0, values);
      comm.wait(comm.all_reduce(values));
      EXPECT_THAT(values.to_vector<float>(), Each(static_cast<float>(ranks * (ranks + 1) / 2)));
    });
  }
}

TEST(ThreadCommunicator, LetsHostCallsPassWhileAnAllReduceIsInFlight) {
  thread_world(3, [](Communicator& comm) {
    Tensor values = Tensor::empty({1 << 16});
    ops::fill(1.0, values);
    const Work work = comm.all_reduce(values);
    EXPECT_EQ(all_gather_values(comm, comm.rank()), (std::vector<int>{0, 1, 2}));
    comm.barrier();
    comm.wait(work);
    EXPECT_THAT(values.to_vector<float>(), Each(3.0F));
  });
}

TEST(ThreadCommunicator, MakesNoStreamPerCollective) {
  // A CPU stream is a thread, so a stream per collective would show while they are in flight.
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  thread_world(2, [&](Communicator& comm) {
    comm.barrier();
    const auto before = threads();
    comm.barrier();  // both have counted
    std::vector<Work> works;
    if (comm.rank() == 0) {
      for (int i = 0; i < 50; ++i) {
        works.push_back(comm.all_reduce(Tensor::zeros({8})));  // rank 1 comes to none of them yet
      }
      EXPECT_LE(threads(), before + 2);
    }
    comm.barrier();
    for (int i = 0; comm.rank() == 1 && i < 50; ++i) {
      works.push_back(comm.all_reduce(Tensor::zeros({8})));
    }
    for (const Work& work : works) {
      comm.wait(work);
    }
  });
}

TEST(ThreadCommunicator, BroadcastsFromAnyRoot) {
  thread_world(3, [](Communicator& comm) {
    int value = comm.rank() * 10;
    comm.broadcast(std::as_writable_bytes(std::span(&value, 1)), 2);
    EXPECT_EQ(value, 20);
  });
}

TEST(ThreadWorld, ReleasesTheOthersWhenOneRankFails) {
  EXPECT_THAT(
      [] {
        thread_world(3, [](Communicator& comm) {
          if (comm.rank() == 1) {
            throw Error("rank 1 is broken");
          }
          comm.barrier();
        });
      },
      ThrowsMessage<Error>(HasSubstr("rank")));
}

}  // namespace
}  // namespace brigade::dist
