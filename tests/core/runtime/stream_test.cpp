#include "core/runtime/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/runtime/context.h"
#include "tests/support/expect_error.h"

namespace brigade {
namespace {

using testing::ElementsAre;

constexpr auto kPatience = std::chrono::seconds(20);  // far longer than any of these needs

/// Waits for what must happen on another thread soon.
template <class Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

/// Work that keeps a stream busy until it is let go.
class Gate {
 public:
  void open() { promise_.set_value(); }
  std::function<void()> work() const {
    return [future = future_] { future.wait_for(kPatience); };
  }

 private:
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future().share();
};

TEST(Event, IsDoneByDefault) {
  EXPECT_TRUE(Event().done());
  Event().synchronize();
}

TEST(InlineStream, FinishesWorkBeforeRunReturns) {
  InlineStream stream;
  std::thread::id worker;
  stream.run([&] { worker = std::this_thread::get_id(); });
  EXPECT_EQ(worker, std::this_thread::get_id());
  EXPECT_TRUE(stream.record().done());
}

TEST(WorkerStream, RunsWorkInOrderOnAnotherThread) {
  std::vector<int> order;
  std::thread::id worker;
  WorkerStream stream("test");
  for (int i = 0; i < 100; ++i) {
    stream.run([&order, &worker, i] {
      order.push_back(i);
      worker = std::this_thread::get_id();
    });
  }
  stream.synchronize();
  ASSERT_EQ(order.size(), 100U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_NE(worker, std::this_thread::get_id());
}

TEST(WorkerStream, DoesNotMakeTheCallerWait) {
  Gate gate;
  WorkerStream stream("test");
  stream.run(gate.work());
  const Event event = stream.record();
  EXPECT_FALSE(event.done());
  gate.open();
  event.synchronize();
  EXPECT_TRUE(event.done());
}

TEST(WorkerStream, CompletesAnEventBeforeLaterWork) {
  Gate gate;
  WorkerStream stream("test");
  const Event before = stream.record();
  stream.run(gate.work());
  before.synchronize();  // would hang for the gate's patience, did it cover later work
  EXPECT_FALSE(stream.record().done());
  gate.open();
}

TEST(WorkerStream, StartsLaterWorkOnlyAfterAnEventOfAnotherStream) {
  std::vector<const char*> order;
  Gate gate;
  WorkerStream compute("compute");
  WorkerStream communication("comm");
  compute.run(gate.work());
  compute.run([&] { order.push_back("gradient"); });
  communication.wait(compute.record());
  communication.run([&] { order.push_back("all-reduce"); });
  gate.open();
  communication.synchronize();
  EXPECT_THAT(order, ElementsAre(testing::StrEq("gradient"), testing::StrEq("all-reduce")));
}

TEST(InlineStream, WaitsForAnEventOfAWorker) {
  bool reduced = false;
  InlineStream compute;
  WorkerStream communication("comm");
  communication.wait(compute.record());
  communication.run([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    reduced = true;
  });
  compute.wait(communication.record());
  EXPECT_TRUE(reduced);
}

TEST(WorkerStream, RethrowsWhatItsWorkThrew) {
  WorkerStream stream("test");
  stream.run([] { throw Error("bucket 3: connection lost"); });
  EXPECT_ERROR(stream.synchronize(), "bucket 3: connection lost");
}

TEST(WorkerStream, SkipsWorkAfterAFailureButCompletesEvents) {
  bool ran = false;
  WorkerStream stream("test");
  const Event before = stream.record();
  stream.run([] { throw Error("first"); });
  stream.run([&] { ran = true; });
  stream.run([] { throw Error("second"); });
  const Event after = stream.record();
  EXPECT_ERROR(after.synchronize(), "first");
  EXPECT_FALSE(ran);
  before.synchronize();  // recorded before the failure: fine
}

TEST(WorkerStream, PassesAFailureOnToTheStreamThatWaitsForIt) {
  InlineStream compute;
  WorkerStream first("first");
  WorkerStream second("second");
  first.run([] { throw Error("lost"); });
  second.wait(first.record());
  EXPECT_ERROR(compute.wait(second.record()), "lost");
}

TEST(WorkerStream, DoesNotTakeAWaitingStreamForARankThatCannotCompute) {
  WorkerStream network("network");
  WorkerStream optimizer("optimizer");
  Gate gate;
  network.run(gate.work());
  optimizer.wait(network.record());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(network.someone_waits());
  gate.open();
  optimizer.synchronize();
}

TEST(WorkerStream, KnowsWhetherSomeoneWaits) {
  Gate gate;
  WorkerStream stream("test");
  stream.run(gate.work());
  const Event event = stream.record();
  EXPECT_FALSE(stream.someone_waits());
  std::thread waiter([&] { event.synchronize(); });
  EXPECT_TRUE(eventually([&] { return stream.someone_waits(); }));
  gate.open();
  waiter.join();
  EXPECT_FALSE(stream.someone_waits());
}

TEST(WorkerStream, FinishesItsQueueBeforeItIsDestroyed) {
  std::atomic<int> done = 0;
  {
    WorkerStream stream("test");
    stream.run([] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
    for (int i = 0; i < 10; ++i) {
      stream.run([&] { ++done; });
    }
  }
  EXPECT_EQ(done, 10);
}

TEST(WorkerStream, LeavesBehindEventsThatCanStillBeAsked) {
  Event good;
  Event bad;
  {
    WorkerStream stream("test");
    good = stream.record();
    stream.run([] { throw Error("lost"); });
    bad = stream.record();
  }
  EXPECT_TRUE(good.done());
  EXPECT_ERROR(bad.synchronize(), "lost");
}

TEST(Event, MeasuresTheTimeBetweenTwoPointsOfAStream) {
  WorkerStream stream("test");
  const Event begin = stream.record(Timing::on);
  stream.run([] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); });
  const Event end = stream.record(Timing::on);
  end.synchronize();
  EXPECT_GE(elapsed_ms(begin, end), 10.0);
  EXPECT_LE(elapsed_ms(end, begin), -10.0);
}

TEST(Event, HasNoTimeBeforeItIsDone) {
  Gate gate;
  WorkerStream stream("test");
  const Event begin = stream.record(Timing::on);
  stream.run(gate.work());
  const Event end = stream.record(Timing::on);
  EXPECT_ERROR(static_cast<void>(elapsed_ms(begin, end)),
               "elapsed_ms: expected two finished events");
  gate.open();
}

TEST(CommStream, OfTheCpuIsAThreadOfItsOwn) {
  const auto stream = make_comm_stream(kCpu);
  std::thread::id worker;
  stream->run([&] { worker = std::this_thread::get_id(); });
  stream->synchronize();
  EXPECT_NE(worker, std::this_thread::get_id());
}

TEST(UseStream, TakesThePlaceOfThisThreadsComputeStream) {
  Stream& own = compute_stream(kCpu);
  InlineStream outer;
  InlineStream inner;
  {
    const UseStream first(outer);
    EXPECT_EQ(&compute_stream(kCpu), &outer);
    {
      const UseStream second(inner);
      EXPECT_EQ(&compute_stream(kCpu), &inner);
      std::thread([&] { EXPECT_NE(&compute_stream(kCpu), &inner) << "of this thread"; }).join();
    }
    EXPECT_EQ(&compute_stream(kCpu), &outer);
  }
  EXPECT_EQ(&compute_stream(kCpu), &own);
}

}  // namespace
}  // namespace brigade
