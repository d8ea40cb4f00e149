#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "autograd/functions/binary.h"
#include "autograd/variable.h"
#include "tests/autograd/probe.h"
#include "tests/support/expect_error.h"
#include "tests/support/on_backward.h"

namespace brigade::autograd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(GradListener, IsToldOfTheBeginningAndEndOncePerBackward) {
  EventLog log;
  LoggingListener listener(log);
  const Variable a = scalar_leaf(1);
  const Variable b = scalar_leaf(1);
  const ListenerHandle ha = a.attach_listener(listener, 0);
  const ListenerHandle hb = b.attach_listener(listener, 1);
  probe(log, "node", {a, b}).backward();
  EXPECT_THAT(log, ElementsAre("begin", "node:0", "ready 0", "node:1", "ready 1", "end"));
}

TEST(GradListener, HearsNothingOfABackwardThatDoesNotReachIt) {
  EventLog log;
  LoggingListener listener(log);
  const Variable mine = scalar_leaf(1);
  const ListenerHandle handle = mine.attach_listener(listener, 0);
  mul(scalar_leaf(1), 2).backward();
  EXPECT_THAT(log, IsEmpty());
}

TEST(GradListener, HearsNothingOfAParameterThatTheLossDoesNotUse) {
  EventLog log;
  LoggingListener listener(log);
  const Variable used = scalar_leaf(1);
  const Variable unused = scalar_leaf(1);
  const ListenerHandle first = used.attach_listener(listener, 0);
  const ListenerHandle second = unused.attach_listener(listener, 1);
  mul(used, 2).backward();
  EXPECT_THAT(log, ElementsAre("begin", "ready 0", "end"));
}

TEST(GradListener, HearsNothingAfterItsHandleIsGone) {
  EventLog log;
  LoggingListener listener(log);
  const Variable w = scalar_leaf(1);
  { const ListenerHandle handle = w.attach_listener(listener, 0); }
  mul(w, 2).backward();
  EXPECT_THAT(log, IsEmpty());
}

TEST(GradListener, HearsUnderItsNewNumberAfterItsHandleIsReplaced) {
  EventLog log;
  LoggingListener listener(log);
  const Variable w = scalar_leaf(1);
  ListenerHandle handle = w.attach_listener(listener, 1);
  handle = w.attach_listener(listener, 2);
  mul(w, 2).backward();
  EXPECT_THAT(log, ElementsAre("begin", "ready 2", "end"));
  log.clear();
  ListenerHandle another = w.attach_listener(listener, 3);
  handle = std::move(another);
  mul(w, 2).backward();
  EXPECT_THAT(log, ElementsAre("begin", "ready 3", "end"));
}

TEST(GradListener, SharesAVariableWithOthers) {
  EventLog first_log;
  EventLog second_log;
  LoggingListener first(first_log);
  LoggingListener second(second_log);
  const Variable w = scalar_leaf(1);
  const ListenerHandle h1 = w.attach_listener(first, 4);
  const ListenerHandle h2 = w.attach_listener(second, 5);
  mul(w, 2).backward();
  EXPECT_THAT(first_log, ElementsAre("begin", "ready 4", "end"));
  EXPECT_THAT(second_log, ElementsAre("begin", "ready 5", "end"));
}

TEST(GradListener, IsToldOfAnAbortAndTheNextBackwardStartsClean) {
  EventLog log;
  LoggingListener listener(log);
  const Variable lower = scalar_leaf(1);
  const Variable upper = scalar_leaf(1);
  const ListenerHandle h0 = lower.attach_listener(listener, 0);
  const ListenerHandle h1 = upper.attach_listener(listener, 1);
  const auto loss = [&](const Variable& hidden) { return add(upper, add(hidden, hidden)); };
  const Variable hidden = test::on_backward(mul(lower, 3), test::fail_in_backward);
  EXPECT_ERROR(loss(hidden).backward(), "backward failed");
  EXPECT_THAT(log, ElementsAre("begin", "ready 1", "abort"));

  log.clear();
  lower.zero_grad();
  upper.zero_grad();
  loss(mul(lower, 3)).backward();
  EXPECT_THAT(log, ElementsAre("begin", "ready 1", "ready 0", "end"));
  EXPECT_EQ(grad_of(lower), 6.0);
  EXPECT_EQ(grad_of(upper), 1.0);
}

TEST(GradListener, SeesNothingOfABackwardThatFailedHalfWay) {
  const Variable w = scalar_leaf(1);
  const Variable first = test::on_backward(mul(w, 3), test::fail_in_backward);
  const Variable second = mul(w, 5);  // recorded last, so its backward has run by then
  EXPECT_ERROR(add(first, second).backward(), "backward failed");
  w.zero_grad();
  mul(w, 2).backward();
  EXPECT_EQ(grad_of(w), 2.0);
}

TEST(GradListener, MayDropTheRoot) {
  struct Dropping final : GradListener {
    Variable root;
    void on_grad_ready(std::size_t /*index*/) override { root = Variable(); }
  };
  const Variable w = scalar_leaf(1);
  Dropping listener;
  listener.root = mul(mul(w, 3), 2);
  const ListenerHandle handle = w.attach_listener(listener, 0);
  listener.root.backward();
  EXPECT_EQ(grad_of(w), 6.0);
}

TEST(GradListener, HandleMayOutliveTheVariable) {
  EventLog log;
  LoggingListener listener(log);
  ListenerHandle handle = scalar_leaf(1).attach_listener(listener, 0);
  handle = {};
  EXPECT_THAT(log, testing::IsEmpty());
}

TEST(GradListener, ThatThrowsAbortsTheBackward) {
  struct Failing final : LoggingListener {
    using LoggingListener::LoggingListener;
    void on_grad_ready(std::size_t /*index*/) override { throw Error("parameter reported twice"); }
  };
  EventLog log;
  Failing listener(log);
  const Variable w = scalar_leaf(1);
  const ListenerHandle handle = w.attach_listener(listener, 0);
  EXPECT_ERROR(mul(w, 2).backward(), "parameter reported twice");
  EXPECT_THAT(log, ElementsAre("begin", "abort"));
}

TEST(GradListener, HearsThatANodeHasRunAfterAllItsGradients) {
  struct Counting final : LoggingListener {
    explicit Counting(EventLog& events) : LoggingListener(events), all(events) {}
    void on_node_end() override { all.emplace_back("node end"); }
    EventLog& all;
  };
  EventLog log;
  Counting listener(log);
  const Variable w = scalar_leaf(1);
  const ListenerHandle handle = w.attach_listener(listener, 0);
  const Variable x = mul(scalar_leaf(1), 2);
  probe(log, "node", {w, x}).backward();
  EXPECT_THAT(log,
              ElementsAre("begin", "node:0", "ready 0", "node:1", "node end", "node end", "end"))
      << "the gradient of w is ready before x's is computed, which may still read w";
}

TEST(Variable, WaitsForWhoeverStillWritesItBeforeItIsReadAndOnlyThen) {
  const Variable w = scalar_leaf(1);
  int waits = 0;
  w.set_pending_write([&] { ++waits; });
  static_cast<void>(w.shape());
  w.zero_grad();
  EXPECT_EQ(waits, 0);
  static_cast<void>(mul(w, 2));
  static_cast<void>(w.data());
  EXPECT_EQ(waits, 1);
}

TEST(GradListener, AttachesToLeavesOnly) {
  EventLog log;
  LoggingListener listener(log);
  const Variable x(Tensor::zeros({}), false, "images");
  EXPECT_ERROR(static_cast<void>(x.attach_listener(listener, 0)),
               "variable 'images': only a leaf that requires a gradient reports it");
  EXPECT_THROW(static_cast<void>(mul(scalar_leaf(1), 2).attach_listener(listener, 0)), Error);
}

}  // namespace
}  // namespace brigade::autograd
