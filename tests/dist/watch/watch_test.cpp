#include "dist/watch/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <thread>

#include "core/runtime/context.h"
#include "core/runtime/trace.h"
#include "dist/watch/ledger_exchange.h"
#include "tests/support/fake_gdb.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

TEST(Ledger, TellsWhereTheRankIsAndWhatItHasBegun) {
  ScopeNames scopes;
  Ledger ledger(scopes);
  ledger.begin_step(3);
  scopes.outermost = "backward";
  scopes.innermost = "linear";
  ledger.collective_begins("bucket_0", Tensor::zeros({4}));
  const LedgerEntry during = ledger.now();
  EXPECT_EQ(during.step, 3);
  EXPECT_EQ(during.bytes, 16U);
  EXPECT_EQ(text_of(during.label), "bucket_0");
  EXPECT_EQ(text_of(during.phase), "backward");
  EXPECT_TRUE(during.in_flight());
  EXPECT_EQ(during.waits, 0U);
  ledger.collective_ends();
  scopes.innermost = kAllGather;
  EXPECT_FALSE(ledger.now().in_flight());
  EXPECT_EQ(ledger.now().waits, 1U);
}

TEST(Ledger, KeepsTheLastEntriesAndCutsLongNames) {
  ScopeNames scopes;
  Ledger ledger(scopes);
  for (int i = 0; i < 100; ++i) {
    ledger.collective_begins(std::string(100, 'x'), Tensor::zeros({1}));
    ledger.collective_ends();
  }
  const std::vector<LedgerEntry> entries = ledger.take_new();
  ASSERT_EQ(entries.size(), Ledger::kKept);
  EXPECT_EQ(entries.back().number, 100U);
  EXPECT_EQ(text_of(entries.back().label), std::string(63, 'x'));
  EXPECT_TRUE(ledger.take_new().empty());
}

TEST(ScopeName, IsTheOutermostAndTheInnermost) {
  ScopeNames& names = Context::current().scope_names();
  EXPECT_EQ(names.outermost.load(), nullptr);
  {
    const TraceScope outer("outer");
    const ScopeName middle("middle");
    { const ScopeName inner("inner"); }
    EXPECT_STREQ(names.outermost.load(), "outer");
    EXPECT_STREQ(names.innermost.load(), "middle");
  }
  EXPECT_EQ(names.outermost.load(), nullptr);
  EXPECT_EQ(names.innermost.load(), nullptr);
}

TEST(EntryReader, TakesEntriesHoweverTheyAreCut) {
  ScopeNames scopes;
  Ledger ledger(scopes);
  ledger.begin_step(5);
  const std::vector<LedgerEntry> sent(3, ledger.now());
  const auto bytes = std::as_bytes(std::span(sent));
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    EntryReader reader;
    int taken = 0;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      EXPECT_TRUE(
          reader.read(bytes.subspan(at, std::min(piece, bytes.size() - at)),
                      [&](const LedgerEntry& entry) { taken += entry.step == 5 ? 1 : 100; }));
    }
    EXPECT_EQ(taken, 3);
  }
}

TEST(EntryReader, RefusesWhatNoLedgerHasWritten) {
  const auto refused = [](auto spoil) {
    LedgerEntry entry;
    spoil(entry);
    return !EntryReader::parse(std::as_bytes(std::span(&entry, 1))).has_value();
  };
  EXPECT_FALSE(refused([](LedgerEntry&) {}));
  EXPECT_TRUE(refused([](LedgerEntry& e) { e.kind = static_cast<LedgerEntry::Kind>(4); }));
  EXPECT_TRUE(refused([](LedgerEntry& e) { e.dtype = 6; }));
  EXPECT_TRUE(refused([](LedgerEntry& e) { e.ended = 1; }));
  EXPECT_TRUE(refused([](LedgerEntry& e) { e.label.fill('x'); }));
  EXPECT_TRUE(refused([](LedgerEntry& e) { e.phase.fill('x'); }));
  EXPECT_FALSE(EntryReader::parse({}).has_value());
}

/// What the watches of a group of ranks found, and when.
class Findings {
 public:
  WatchOptions options(double warn_after, double end_after) {
    return {.warn_after = warn_after,
            .end_after = end_after,
            .end = [this](const Diagnosis& diagnosis) {
              const std::lock_guard lock(mutex_);
              texts_.push_back(diagnosis.text);
              changed_.notify_all();
              return true;
            }};
  }
  /// Until `count` watches have ended the job, or for ten seconds.
  std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return texts_.size() >= count; });
    return texts_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_;
};

TEST(Watch, EveryRankLearnsWhoIsMissingFromAnAllReduce) {
  Findings findings;
  testing::internal::CaptureStderr();
  test::thread_world(3, [&](Communicator& comm) {
    Watch watch(comm, findings.options(0.5, 1.0));
    watch.set_contents({{"bucket_0", "0.weight, 0.bias"}});
    watch.begin_step(4);
    const Tensor values = Tensor::zeros({4});
    Work work;
    if (comm.rank() != 1) {
      work = comm.all_reduce(values, "bucket_0");
    }
    const ScopeName scope("load batch");
    EXPECT_EQ(findings.wait_for(3).size(), 3U);
    if (comm.rank() == 1) {
      work = comm.all_reduce(values, "bucket_0");
    }
    comm.wait(work);
  });
  EXPECT_THAT(findings.wait_for(3),
              testing::AllOf(testing::SizeIs(3),
                             testing::Each(AllOf(
                                 HasSubstr("rank 1 has not reached bucket_0 (0.weight, 0.bias) of "
                                           "step 4; it is in load batch for "),  // 1 s; busy: 2 s
                                 HasSubstr(" s; ranks 0 and 2 wait")))));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, AllOf(HasSubstr("[rank 0] watch: rank 1 has not reached bucket_0"),
                          testing::Not(HasSubstr("[rank 2]"))));
}

TEST(Watch, IsNotPausedByGdbWhereNobodyIsToBlame) {
  const test::FakeGdb gdb("echo looked >>$0.log");
  const TemporaryDirectory directory;
  Findings findings;
  test::thread_world(3, [&](Communicator& comm) {
    Watch watch(comm, findings.options(0.0, 1.0));
    watch.set_report(directory / "stall.json");
    const Work work =
        comm.enqueue(Tensor::zeros({4}), "bucket_0", [&](Collectives&) { findings.wait_for(3); });
    comm.wait(work);
  });
  EXPECT_THAT(findings.wait_for(3), testing::Each(HasSubstr("all ranks wait for each other")));
  EXPECT_EQ(gdb.log(), "looked\nlooked\n") << "at ranks 1 and 2";
}

TEST(Watch, TellsRanksThatDisagreeAtOnce) {
  Findings findings;
  const auto disagree = [&](Communicator& comm) {
    const Watch watch(comm, findings.options(0.0, 60.0));
    const Work work = comm.all_reduce(Tensor::zeros({comm.rank() == 0 ? 4 : 8}),
                                      comm.rank() == 0 ? "bucket_0" : "bucket_1");
    for (const std::string& text : findings.wait_for(2)) {
      EXPECT_THAT(text, HasSubstr("collective number 1 is bucket_"));
    }
    throw Error("enough: these collectives would never end");
  };
  EXPECT_THROW(test::thread_world(2, disagree), Error);
  EXPECT_EQ(findings.wait_for(2).size(), 2U);
}

TEST(Watch, LeavesAQuietJobAlone) {
  Findings findings;
  testing::internal::CaptureStderr();
  test::thread_world(2, [&](Communicator& comm) {
    {
      const Watch watch(comm, findings.options(0.1, 0.2));
      std::this_thread::sleep_for(milliseconds(600));  // nobody waits
    }
    std::this_thread::sleep_for(milliseconds(comm.rank() * 300));
    comm.barrier();
  });
  EXPECT_TRUE(findings.wait_for(0).empty());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Watch, IsNothingForOneRank) {
  test::thread_world(1, [](Communicator& comm) {
    Watch watch(comm, {});
    watch.begin_step(1);
    comm.wait(comm.all_reduce(Tensor::zeros({1})));
  });
}

}  // namespace
}  // namespace brigade::dist
