#include "apps/metrics/step_metrics.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "apps/metrics/step_recorder.h"
#include "dist/comm/single_process.h"

namespace brigade::apps {
namespace {

// ms:       0        4              10   12  13
// compute   |forward |backward      |wait|opt|
// comm                     [6 -- 8]
//                               [7 ----- 12]
StepSpans overlapping_step() {
  StepSpans spans;
  spans.forwards = {{0, 4}};
  spans.backwards = {{4, 12}};
  spans.optimizer = {12, 13};
  spans.waits = {{10, 12}};
  spans.collectives = {{5, 6, 8, 100}, {7, 7, 12, 200}};
  return spans;
}

TEST(StepMetrics, CommunicationBesideComputationIsHidden) {
  const StepTimes times = times_of(overlapping_step());
  EXPECT_DOUBLE_EQ(times.step, 13);
  EXPECT_DOUBLE_EQ(times.forward, 4);
  EXPECT_DOUBLE_EQ(times.backward, 6);  // without the wait at its end
  EXPECT_DOUBLE_EQ(times.wait, 2);
  EXPECT_DOUBLE_EQ(times.optimizer, 1);
  EXPECT_DOUBLE_EQ(times.comm, 6);  // 6 to 12, the common millisecond once
  EXPECT_DOUBLE_EQ(times.hidden, 4);
  EXPECT_DOUBLE_EQ(times.exposed, 2);
}

TEST(StepMetrics, NothingIsHiddenWhenEveryCollectiveIsWaitedForAtOnce) {
  StepSpans spans = overlapping_step();
  spans.waits = {{6, 8}, {8, 12}};
  spans.collectives = {{6, 6, 8, 100}, {6, 8, 12, 200}};
  const StepTimes times = times_of(spans);
  EXPECT_DOUBLE_EQ(times.hidden, 0);
  EXPECT_DOUBLE_EQ(times.exposed, 6);
  EXPECT_DOUBLE_EQ(times.backward, 2);
}

// operations |0-3|       |5---9|    |12|      the GPU's, of the step above
TEST(StepMetrics, BetweenTheOperationsOfAGpuNothingIsHidden) {
  StepSpans spans = overlapping_step();
  spans.operations = {{0, 3}, {5, 9}, {12, 12.5}};
  const StepTimes times = times_of(spans);
  EXPECT_DOUBLE_EQ(total_length(computation_of(spans)), 3 + 4 + 0.5);
  EXPECT_DOUBLE_EQ(times.hidden, 3) << "6 to 9; from 9 to 10 it waits for its host";
  EXPECT_DOUBLE_EQ(times.exposed, 3);
  EXPECT_DOUBLE_EQ(times.wait, 2) << "a gap is no wait";
  EXPECT_DOUBLE_EQ(times.backward, 6);
}

TEST(StepClock, KnowsHowExactlyItKnowsItsEpoch) {
  dist::SingleProcessCommunicator comm(kCpu);
  const auto before = std::chrono::steady_clock::now();
  const StepClock clock(kCpu, comm);
  const auto after = std::chrono::steady_clock::now();
  EXPECT_GE(clock.epoch(), before);
  EXPECT_LE(clock.epoch(), after);
  EXPECT_GT(clock.epoch_error_ms(), 0.0);
  const std::chrono::duration<double, std::milli> taken = after - before;
  EXPECT_LE(clock.epoch_error_ms(), taken.count() / 2) << "the fastest of several attempts";
}

double ms_between(Event::Time begin, Event::Time end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

// ms:      step 1                    | step 2             | step 3
// comm          [late ------------------------][next]
TEST(StepClock, ACollectiveInFlightAtAStepsEndIsSharedOutBetweenTheSteps) {
  using Clock = std::chrono::steady_clock;
  dist::SingleProcessCommunicator comm(kCpu);
  StepClock clock(kCpu, comm);
  const Tensor payload = Tensor::zeros({25});
  std::promise<Event::Time> began;
  std::promise<void> may_end;
  Event::Time ended;

  clock.start(StepClock::Border::none);
  clock.forward_done();
  const Event::Time before = Clock::now();
  comm.enqueue(payload, "late", [&](dist::Collectives& /*unused*/) {
    began.set_value(Clock::now());
    may_end.get_future().wait();
    ended = Clock::now();
  });
  const dist::Work next = comm.all_reduce(payload, "next");
  const Event::Time begin = began.get_future().get();
  clock.backward_done();
  const StepSpans first = clock.finish();
  ASSERT_EQ(first.labels, (std::vector<std::string>{"late"})) << "the next one has not begun";
  EXPECT_GT(first.collectives[0].begin, 0.0);
  EXPECT_EQ(first.collectives[0].end, first.optimizer.end);

  clock.start(StepClock::Border::none);
  clock.forward_done();
  may_end.set_value();
  comm.wait(next);
  const Event::Time after = Clock::now();
  clock.backward_done();
  const StepSpans second = clock.finish();
  ASSERT_EQ(second.labels, (std::vector<std::string>{"late (goes on)", "next"}));
  EXPECT_EQ(second.collectives[0].begin, 0.0);
  EXPECT_LT(second.collectives[0].end, second.optimizer.end);
  EXPECT_GE(second.collectives[1].begin, second.collectives[0].end);
  const double length = first.collectives[0].end - first.collectives[0].begin +
                        second.collectives[0].end - second.collectives[0].begin;
  EXPECT_GE(length, ms_between(begin, ended));
  EXPECT_LE(length, ms_between(before, after));

  clock.start(StepClock::Border::none);
  clock.forward_done();
  clock.backward_done();
  EXPECT_TRUE(clock.finish().collectives.empty()) << "each is over once";
}

// ms:      step 1        | pause      | step 2
// comm          [in the pause --]
TEST(StepClock, APauseBetweenStepsThatAdjoinIsNoPartOfAny) {
  constexpr double kPause = 100;  // ms
  dist::SingleProcessCommunicator comm(kCpu);
  StepClock clock(kCpu, comm);
  const Tensor payload = Tensor::zeros({25});
  std::promise<void> may_end;
  const auto step = [&clock] {
    clock.start(StepClock::Border::none);
    clock.forward_done();
    clock.backward_done();
    return clock.finish();
  };
  step();
  comm.enqueue(payload, "in the pause",
               [&](dist::Collectives& /*unused*/) { may_end.get_future().wait(); });
  const dist::Work behind = comm.all_reduce(payload, "behind it");
  step();
  may_end.set_value();
  comm.wait(behind);
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(kPause));
  clock.pause();
  const StepSpans after = step();
  EXPECT_LT(after.optimizer.end, kPause / 2);
  EXPECT_TRUE(after.collectives.empty()) << after.labels.front();

  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(kPause));
  EXPECT_GE(step().optimizer.end, kPause);
}

TEST(StepClock, AnBucketOptimizerAtAStepsEndIsSharedOutBetweenTheSteps) {
  dist::SingleProcessCommunicator comm(kCpu);
  StepClock clock(kCpu, comm);
  clock.set_recording(true);
  const auto stream = make_comm_stream(kCpu);
  std::promise<void> may_end;

  clock.start(StepClock::Border::none);
  clock.forward_done();
  const Event begin = stream->record(Timing::on);
  stream->run([&] { may_end.get_future().wait(); });
  const Event end = stream->record(Timing::on);
  begin.synchronize();
  clock.backward_done();
  const StepSpans first = clock.finish({{.label = "bucket_0", .begin = begin, .end = end}});
  ASSERT_EQ(first.updates.size(), 1U);
  EXPECT_GT(first.updates[0].begin, 0.0);
  EXPECT_EQ(first.updates[0].end, first.optimizer.end);

  clock.start(StepClock::Border::none);
  clock.forward_done();
  may_end.set_value();
  end.synchronize();
  clock.backward_done();
  const StepSpans second = clock.finish();
  ASSERT_EQ(second.updates.size(), 1U);
  EXPECT_EQ(second.updates[0].begin, 0.0);
  EXPECT_LT(second.updates[0].end, second.optimizer.end);
  EXPECT_NEAR(total_length(first.updates) + total_length(second.updates), elapsed_ms(begin, end),
              1e-6);
  ASSERT_EQ(first.scopes.size(), 1U);
  ASSERT_EQ(second.scopes.size(), 1U);
  EXPECT_EQ(first.scopes[0].name, "optimizer bucket_0");
  EXPECT_EQ(second.scopes[0].name, "optimizer bucket_0 (goes on)");
  const std::vector<OperationTime> operations = operation_times({{0, first}, {1, second}});
  ASSERT_EQ(operations.size(), 1U);
  EXPECT_EQ(operations[0].calls, 0.5) << "one in two steps";

  clock.start(StepClock::Border::none);
  clock.forward_done();
  clock.backward_done();
  EXPECT_TRUE(clock.finish().updates.empty()) << "it is over once";
}

TEST(StepMetrics, PartsOfAllMicroBatchesAddUpToTheStep) {
  StepSpans spans;
  spans.forwards = {{0, 1}, {3, 4}};
  spans.backwards = {{1, 3}, {4, 8}};
  spans.optimizer = {8, 10};
  spans.waits = {{7, 8}};
  const StepTimes times = times_of(spans);
  EXPECT_DOUBLE_EQ(times.forward, 2);
  EXPECT_DOUBLE_EQ(times.backward, 5);
  EXPECT_DOUBLE_EQ(times.forward + times.backward + times.wait + times.optimizer, times.step);
}

}  // namespace
}  // namespace brigade::apps
