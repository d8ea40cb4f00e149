#include "dist/watch/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"

namespace brigade::dist {
namespace {

using testing::ElementsAre;

LedgerEntry::Name name(std::string_view text) {
  LedgerEntry::Name result{};
  std::ranges::copy(text, result.begin());
  return result;
}

/// A rank in step 812 that has begun and ended collectives; for ten seconds nothing has changed.
RankView view(int rank, const char* phase, std::uint64_t number, std::uint64_t ended,
              bool waits = false) {
  RankView result{.rank = rank, .silent = 0.2, .unchanged = 10.0};
  result.last.step = 812;
  result.last.number = number;
  result.last.ended = ended;
  result.last.label = name(fmt::format("bucket_{}", number % 4));
  result.last.phase = name(phase);
  result.last.waits = waits ? 1 : 0;
  return result;
}

RankView in_flight(int rank) {
  return view(rank, "backward", 7, 6);
}

std::optional<Diagnosis> diagnose(const std::vector<RankView>& ranks) {
  return dist::diagnose(ranks, 10.0, [](std::string_view label) {
    return label == "bucket_3" ? "bucket_3 (4.weight, 4.bias)" : std::string(label);
  });
}

void expect(const std::vector<RankView>& ranks, const std::string& text,
            const std::vector<int>& culprits) {
  const auto diagnosis = diagnose(ranks);
  ASSERT_TRUE(diagnosis.has_value());
  EXPECT_EQ(diagnosis->text, text);
  EXPECT_EQ(diagnosis->culprits, culprits);
}

TEST(Diagnosis, NamesTheRankThatHasNotReachedABucketAndWhereItIs) {
  expect(
      {in_flight(0), in_flight(1), view(2, "load batch", 6, 6), in_flight(3)},
      "rank 2 has not reached bucket_3 (4.weight, 4.bias) of step 812; it is in load batch for 10 "
      "s; ranks 0, 1 and 3 wait",
      {2});
}

TEST(Diagnosis, NamesSeveral) {
  expect(
      {view(0, "forward", 6, 6), view(1, "forward", 6, 6), in_flight(2)},
      "ranks 0 and 1 have not reached bucket_3 (4.weight, 4.bias) of step 812; they are in forward "
      "for 10 s; rank 2 waits",
      {0, 1});
}

TEST(Diagnosis, SaysWhatHasNoLabel) {
  RankView reached = in_flight(0);
  reached.last.label = name("");
  expect({reached, view(1, "forward", 6, 6)},
         "rank 1 has not reached an unlabelled all-reduce of step 812; it is in forward for "
         "10 s; rank 0 waits",
         {1});
}

TEST(Diagnosis, KnowsThatCodeOfTheProgramHasNoName) {
  expect({in_flight(0), view(1, "", 6, 6)},
         "rank 1 has not reached bucket_3 (4.weight, 4.bias) of step 812; it is in code of the "
         "program for 10 s; rank 0 waits",
         {1});
}

TEST(Diagnosis, SeesWhoIsMissingInABarrier) {
  expect({view(0, "barrier", 7, 7, true), view(1, "optimizer", 7, 7)},
         "rank 1 has not reached the barrier after step 812; it is in optimizer for 10 s; rank 0 "
         "waits",
         {1});
}

TEST(Diagnosis, SeesWhoIsBehindWhereAllWait) {
  expect(
      {in_flight(0), view(1, "barrier", 6, 6, true)},
      "rank 1 has not reached bucket_3 (4.weight, 4.bias) of step 812; it is in barrier for 10 s; "
      "rank 0 waits",
      {1});
}

TEST(Diagnosis, BlamesTheNetworkWhereAllHaveReachedTheSame) {
  expect(
      {in_flight(0), in_flight(1)},
      "all ranks wait for each other for 10 s, and all have reached bucket_3 (4.weight, 4.bias) of "
      "step 812: look at the network between them",
      {});
}

TEST(Diagnosis, BlamesAProcessThatDoesNotAnswerWhateverItSaidLast) {
  RankView stopped = in_flight(1);
  stopped.silent = 10.0;
  expect({in_flight(0), stopped},
         "rank 1 does not answer for 10 s (stopped, or the host hangs or cannot be reached), last "
         "seen in backward of step 812; rank 0 waits",
         {1});
}

TEST(Diagnosis, IsNoneWhileARankMakesProgress) {
  RankView busy = view(1, "load batch", 6, 6);
  busy.unchanged = 9.0;
  EXPECT_FALSE(diagnose({in_flight(0), busy}));
}

TEST(Diagnosis, IsNoneWhereNobodyWaits) {
  EXPECT_FALSE(diagnose({view(0, "forward", 6, 6), view(1, "forward", 6, 6)}));
}

TEST(Diagnosis, LeavesOutRanksThatHaveEnded) {
  RankView ended = in_flight(1);
  ended.left = true;
  ended.silent = ended.unchanged = 100.0;
  EXPECT_FALSE(diagnose({view(0, "forward", 6, 6), ended}));
  EXPECT_FALSE(diagnose_lost(std::vector{view(0, "forward", 6, 6), ended}, 6.0));
}

TEST(Diagnosis, NamesARankThatHasEndedBeforeTheOthers) {
  RankView ended = view(1, "", 6, 6);
  ended.left = true;
  expect(
      {in_flight(0), ended},
      "rank 1 has ended after step 812 and will not reach bucket_3 (4.weight, 4.bias) of step 812; "
      "rank 0 waits",
      {1});
}

TEST(Diagnosis, KnowsThatNoTimeHelpsWhereARankThatIsNeededHasEnded) {
  RankView ended = view(1, "", 6, 6);
  ended.left = true;
  EXPECT_TRUE(diagnose({in_flight(0), ended})->hopeless);
  EXPECT_FALSE(diagnose({in_flight(0), view(1, "forward", 6, 6)})->hopeless);
  const RankView waiting = view(0, "barrier", 6, 6, /*waits=*/true);
  EXPECT_TRUE(diagnose({waiting, ended})->hopeless);
  expect({waiting, ended},
         "rank 1 has ended after step 812 and will not reach the barrier after step 812; rank 0 "
         "waits",
         {1});
  EXPECT_FALSE(diagnose({waiting, view(2, "forward", 6, 6), ended})->hopeless);
}

TEST(Diagnosis, LetsARankTakeItsTimeWithFiles) {
  const RankView busy = view(1, kWritesFiles, 6, 6);
  EXPECT_TRUE(diagnose({in_flight(0), busy})->may_end_well);
  RankView stopped = busy;
  stopped.silent = 10.0;
  EXPECT_FALSE(diagnose({in_flight(0), stopped})->may_end_well);
  EXPECT_FALSE(diagnose({in_flight(0), view(1, "forward", 6, 6)})->may_end_well);
}

TEST(Diagnosis, OfAProcessThatIsGoneLeavesTheLauncherSixSeconds) {
  RankView gone = view(1, "forward", 6, 6);
  gone.gone = true;
  gone.silent = 5.9;
  EXPECT_FALSE(diagnose_lost(std::vector{in_flight(0), gone}, 6.0));
  gone.silent = 6.1;
  const auto diagnosis = diagnose_lost(std::vector{in_flight(0), gone}, 6.0);
  ASSERT_TRUE(diagnosis.has_value());
  EXPECT_EQ(diagnosis->text,
            "rank 1 has ended without a word (killed?), last seen in forward of step 812");
  EXPECT_THAT(diagnosis->culprits, ElementsAre(1));
}

TEST(Diagnosis, TellsWhichCollectivesDoNotMatch) {
  LedgerEntry mine = in_flight(0).last;
  mine.bytes = 4096;
  EXPECT_FALSE(diagnose_mismatch(mine, 0, mine, 1));
  LedgerEntry theirs = mine;
  theirs.bytes = 8192;
  theirs.label = name("bucket_2");
  const auto diagnosis = diagnose_mismatch(mine, 0, theirs, 1);
  ASSERT_TRUE(diagnosis.has_value());
  EXPECT_EQ(
      diagnosis->text,
      "collective number 7 is bucket_3 of 4096 bytes, f32, step 812 on rank 0 and bucket_2 of "
      "8192 bytes, f32, step 812 on rank 1: the ranks do not run the same program on the same "
      "network");
  theirs = mine;
  theirs.dtype = static_cast<std::uint32_t>(DType::bf16);
  EXPECT_TRUE(diagnose_mismatch(mine, 0, theirs, 1));
}

}  // namespace
}  // namespace brigade::dist
