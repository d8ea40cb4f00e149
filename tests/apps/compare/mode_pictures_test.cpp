// What the modes are about, read from their traces: over a link on which communication takes about
// as long as computing, emulated and, on pretend hosts (scripts/netlab.sh), real.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/apps/compare/picture.h"
#include "tests/support/pretend_hosts.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade {
namespace {

using apps::intersect;
using apps::Interval;
using apps::total_length;
using test::Outcome;
using test::Picture;
using testing::HasSubstr;

// 8 layers of 1 MiB, each with its bias in a bucket of its own, and 2 micro-batches. The operations
// take milliseconds, so that a communication thread gets its turn even on a busy core.
constexpr const char* kWork =
    " --depth 8 --width 512 --batch 512 --bucket-mb 1.1 --accum 2 --rounds 1 --steps 4 --threads 1 "
    "--modes naive,per_param,overlap,no_sync --trace --out run ";
constexpr std::size_t kBuckets = 8;
constexpr std::size_t kParameters = 2 * kBuckets;
constexpr std::size_t kMicroBatches = 2;
constexpr std::size_t kRecorded = 3;

/// The collectives that begin within `backward`.
Picture::Spans collectives_in(const Picture& step, const Picture::Span& backward) {
  Picture::Spans found;
  std::copy_if(step.comm.begin(), step.comm.end(), std::back_inserter(found), [&](const auto& one) {
    return backward.begin <= one.begin && one.begin < backward.end;
  });
  return found;
}

/// After each backward one solid block: from the first collective to the last nothing is computed,
/// and most of the time something travels. (Between two all-reduces the ranks call for the next.)
void expect_solid_blocks(const std::vector<Picture>& steps) {
  double travelling = 0.0;
  double blocks = 0.0;
  for (const Picture& step : steps) {
    ASSERT_EQ(step.comm.size(), kMicroBatches * kParameters);
    EXPECT_NEAR(step.exposed_ms(), step.comm_ms(), 0.01 * step.comm_ms());
    for (const Picture::Span& backward : step.backwards) {
      const Picture::Spans burst = collectives_in(step, backward);
      ASSERT_EQ(burst.size(), kParameters);
      const Interval block{burst.front().begin, burst.back().end};
      EXPECT_EQ(total_length(intersect(step.operating(), {block})), 0.0) << "nobody computes";
      travelling += total_length(Picture::times(burst));
      blocks += block.end - block.begin;
    }
  }
  EXPECT_GT(travelling, 0.75 * blocks) << "solid";
}

/// Backward goes on while buckets travel. In all steps together: on a busy machine the
/// communication thread of a single one may have to wait for a core. On a fast one backward ends
/// while most buckets still travel.
void expect_interleaving(const std::vector<Picture>& steps) {
  double comm = 0.0;
  double exposed = 0.0;
  std::size_t beside = 0;
  for (const Picture& step : steps) {
    ASSERT_EQ(step.comm.size(), kMicroBatches * kBuckets);
    comm += step.comm_ms();
    exposed += step.exposed_ms();
    for (const Picture::Span& bucket : step.comm) {
      beside += intersect(step.operating(), {bucket.time()}).empty() ? 0 : 1;
    }
  }
  EXPECT_LT(exposed, 0.92 * comm);
  EXPECT_GE(beside, steps.size() * kMicroBatches * kBuckets / 4) << "travel beside operations";
}

void expect_many_small_ones(const Picture& step) {
  ASSERT_EQ(step.comm.size(), kMicroBatches * kParameters);
  const auto small = std::count_if(step.comm.begin(), step.comm.end(),
                                   [](const auto& one) { return one.mib < 0.01; });
  EXPECT_EQ(small, kMicroBatches * kParameters / 2) << "every other one is a bias";
}

/// Nothing until the last micro-batch's backward, and all of it there.
void expect_silence_and_one_burst(const Picture& step) {
  ASSERT_EQ(step.backwards.size(), kMicroBatches);
  ASSERT_EQ(step.comm.size(), kBuckets);
  EXPECT_EQ(collectives_in(step, step.backwards.back()).size(), kBuckets);
  EXPECT_LE(step.comm.back().end, step.optimizers.at(0).begin);
}

class ModePictures : public testing::Test {
 protected:
  void expect_what_modes_are_about() const {
    expect_solid_blocks(steps_of("naive"));
    expect_interleaving(steps_of("overlap"));
    for (const Picture& step : steps_of("per_param")) {
      expect_many_small_ones(step);
    }
    for (const Picture& step : steps_of("no_sync")) {
      expect_silence_and_one_burst(step);
    }
  }

  /// The recorded steps of a mode, on rank 0.
  std::vector<Picture> steps_of(const std::string& mode) const {
    const Picture all(dir_ / "run" / ("trace-" + mode + ".json.gz"), 0);
    EXPECT_EQ(all.steps.size(), kRecorded) << mode;
    std::vector<Picture> steps;
    for (std::size_t step = 0; step < all.steps.size(); ++step) {
      steps.push_back(all.step(step));
    }
    return steps;
  }

  TemporaryDirectory dir_;
};

TEST_F(ModePictures, OverAnEmulatedLink) {
  const Outcome outcome = test::run_program(
      BRIGADE_COMPARE_MODES, kWork + std::string("--emulate-link 100,0.18"), 2, dir_.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("emulated link"));
  expect_what_modes_are_about();
}

TEST_F(ModePictures, OverAShapedLink) {
  if (const std::string reason = test::obstacle_to_pretend_hosts(); !reason.empty()) {
    GTEST_SKIP() << "no shaped link: " << reason;
  }
  const std::string hosts =
      test::netlab() + " run --hosts 2 --rate 1500mbit -- " BRIGADE_COMPARE_MODES;
  const Outcome outcome = test::run_program(hosts, kWork, 0, dir_.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 on 2 hosts"));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("emulated")));
  expect_what_modes_are_about();
}

}  // namespace
}  // namespace brigade
