// What bench_all_reduce makes of the ranks' times, with a second rank whose times are known. The
// contestant is this process alone, but it needs MPI, which starts once per process.
#include <gmock/gmock.h>

#include <deque>

#include "apps/bench/bench_contestants.h"
#include "tests/support/idle_communicator.h"

namespace brigade::apps {
namespace {

using testing::SizeIs;

/// Rank 0 of two. Rank 1 says the same, but its lists of times are the scripted ones, in order.
class SlowPeer final : public test::IdleCommunicator {
 public:
  explicit SlowPeer(std::deque<std::vector<double>> times)
      : IdleCommunicator(0, 2), times_(std::move(times)) {}

  std::vector<std::byte> all_gather(std::span<const std::byte> mine) override {
    std::vector<std::byte> all(mine.begin(), mine.end());
    std::span<const std::byte> other = mine;
    std::vector<double> scripted;
    if (!times_.empty() && mine.size() == times_.front().size() * sizeof(double)) {
      scripted = std::move(times_.front());
      times_.pop_front();
      other = std::as_bytes(std::span(scripted));
    }
    all.insert(all.end(), other.begin(), other.end());
    return all;
  }
  bool all_used() const { return times_.empty(); }

 private:
  std::deque<std::vector<double>> times_;
};

TEST(BenchRace, CountsTheSlowestRankAndTheShareOfACore) {
  const dist::MpiSession session;
  BenchOptions options;
  options.min_bytes = options.max_bytes = 8;
  options.iterations = 3;
  options.check = false;
  std::vector<std::unique_ptr<Contestant>> contestants;
  contestants.push_back(std::make_unique<Contestant>("auto", "fast", options, kCpu));
  // In seconds, hours longer than this process can take.
  SlowPeer control({{3e4, 1e4, 2e4}, {6e4, 5e4, 4e4}, {1e4, 1e4, 1e4}, {4e4, 4e4, 4e4}});
  const std::vector<BenchResult> results = race(contestants, options, control);
  EXPECT_TRUE(control.all_used());
  ASSERT_THAT(results, SizeIs(1));
  ASSERT_THAT(results[0].rows, SizeIs(1));
  const BenchRow& row = results[0].rows[0];
  EXPECT_DOUBLE_EQ(row.out_of_place_us, 2e10);
  EXPECT_DOUBLE_EQ(row.in_place_us, 5e10);
  EXPECT_DOUBLE_EQ(row.cpu_ms.value_or(0.0), 1e7);
  EXPECT_DOUBLE_EQ(row.cpu_core.value_or(0.0), 0.25) << "1e4 s of 4e4 s";
}

}  // namespace
}  // namespace brigade::apps
