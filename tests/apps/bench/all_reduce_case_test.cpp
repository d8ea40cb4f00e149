#include "apps/bench/all_reduce_case.h"

#include <gmock/gmock.h>

#include <deque>
#include <limits>

#include "dist/comm/single_process.h"
#include "tests/support/idle_communicator.h"

namespace brigade::apps {
namespace {

BenchOptions eight_bytes() {
  BenchOptions options;
  options.min_bytes = options.max_bytes = 8;
  options.iterations = 3;
  return options;
}

/// A communicator of 2 ranks that writes `element` where the sum of element `index` belongs.
class WritesOneElement final : public test::IdleCommunicator {
 public:
  WritesOneElement(std::size_t index, float element)
      : IdleCommunicator(0, 2), index_(index), element_(element) {}

 protected:
  void do_sum(const Tensor& tensor) override {
    std::vector<float> sums = tensor.to_vector<float>();
    for (float& value : sums) {
      value = 2.0F * value + 1.0F;  // rank 1's input is rank 0's + 1
    }
    sums[index_] = element_;
    tensor.copy_from(Tensor::from(sums, tensor.shape(), kCpu));
  }

 private:
  std::size_t index_;
  float element_;
};

std::int64_t wrong_with(std::size_t index, float element) {
  BenchOptions options;
  options.max_bytes = 2400;  // 600 f32
  AllReduceCase one("x", std::make_unique<WritesOneElement>(index, element), options, kCpu);
  one.run(2400);
  return one.count_wrong(2400);
}

TEST(AllReduceCase, FindsASingleWrongElement) {
  EXPECT_EQ(wrong_with(0, 1.0F), 0) << "1 is right: 0 + 1";
  EXPECT_EQ(wrong_with(0, 0.0F), 1);
  EXPECT_EQ(wrong_with(599, 0.0F), 1);
  EXPECT_EQ(wrong_with(300, 99.0F), 0) << "99 is right: 2 (300 - 251) + 1";
  EXPECT_EQ(wrong_with(300, std::numeric_limits<float>::quiet_NaN()), 1);
}

TEST(AllReduceCase, AnInputThatWasNotSummedIsWrongEverywhere) {
  BenchOptions options;
  options.max_bytes = 2400;
  AllReduceCase one("x", std::make_unique<test::IdleCommunicator>(0, 3), options, kCpu);
  one.run(2400);
  EXPECT_EQ(one.count_wrong(2400), 600);
}

/// Rank 0 of two. Rank 1 sends the same values, except that its lists of times are scripted.
class SlowPeer final : public test::IdleCommunicator {
 public:
  explicit SlowPeer(std::deque<std::vector<double>> times)
      : IdleCommunicator(0, 2), times_(std::move(times)) {}

  std::vector<std::byte> all_gather_bytes(std::span<const std::byte> mine) override {
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

 private:
  std::deque<std::vector<double>> times_;
};

TEST(RunAlternating, ATimeIsTheMedianOfTheSlowestRanks) {
  const BenchOptions options = eight_bytes();
  std::vector<AllReduceCase> cases;
  cases.emplace_back("one", std::make_unique<dist::SingleProcessCommunicator>(kCpu), options, kCpu);
  // In seconds, hours longer than this process runs: rank 1 is the slowest in every run.
  SlowPeer control({{6e4, 4e4, 5e4}});
  const std::vector<BenchResult> results = run_alternating(cases, options, control);
  ASSERT_EQ(results.size(), 1U);
  ASSERT_EQ(results[0].rows.size(), 1U);
  EXPECT_DOUBLE_EQ(results[0].rows[0].us, 5e10);
  EXPECT_EQ(results[0].rows[0].wrong, 0);
}

/// Appends its letter to a log at every sum.
class Logs final : public test::IdleCommunicator {
 public:
  Logs(char letter, std::string& log) : letter_(letter), log_(log) {}

 protected:
  void do_sum(const Tensor& /*tensor*/) override { log_ += letter_; }

 private:
  char letter_;
  std::string& log_;
};

TEST(RunAlternating, CasesTakeTurnsRunByRun) {
  BenchOptions options = eight_bytes();
  options.warmup = 1;
  options.iterations = 2;
  std::string log;
  std::vector<AllReduceCase> cases;
  for (const char letter : {'a', 'b'}) {
    cases.emplace_back("x", std::make_unique<Logs>(letter, log), options, kCpu);
  }
  test::IdleCommunicator control;
  run_alternating(cases, options, control);
  EXPECT_EQ(log, "ababab") << "the warm-up and two runs";
}

}  // namespace
}  // namespace brigade::apps
