#include "apps/metrics/beside_comm.h"

#include <gtest/gtest.h>

namespace brigade::apps {
namespace {

ScopeTimes operation(const char* name, double begin, double end) {
  return {.name = name, .lane = Lane::compute, .depth = 1, .begin = begin, .end = end};
}

StepTrace step(std::vector<ScopeTimes> operations, std::vector<CollectiveTimes> collectives) {
  StepTrace trace;
  trace.spans.scopes = std::move(operations);
  trace.spans.scopes.insert(trace.spans.scopes.begin(),
                            {.name = "backward", .lane = Lane::compute, .depth = 0, .end = 100});
  trace.spans.collectives = std::move(collectives);
  return trace;
}

// without:  relu 10 | linear 20 | relu 5
// with:     relu 13 | linear 24 | relu 6
// comm                    [20 ------ 40]       beside linear and the second relu
const std::vector<ScopeTimes> kAlone{operation("relu", 0, 10), operation("linear", 10, 30),
                                     operation("relu", 30, 35)};
const std::vector<ScopeTimes> kDisturbed{operation("relu", 0, 13), operation("linear", 13, 37),
                                         operation("relu", 37, 43)};
const CollectiveTimes kComm{.ready = 15, .begin = 20, .end = 40, .bytes = 1};

TEST(BesideComm, ComparesOnlyWhatRanBesideCommunicationWithTheSameAlone) {
  const BesideComm result = beside_comm({step(kDisturbed, {kComm})}, {step(kAlone, {})});
  EXPECT_EQ(result.operations, 2U);
  EXPECT_DOUBLE_EQ(result.with_ms, 24 + 6);
  EXPECT_DOUBLE_EQ(result.without_ms, 20 + 5) << "the second relu, not the first";
  EXPECT_DOUBLE_EQ(result.slower(), 0.2);
}

TEST(BesideComm, TakesTheMedianOfTheUndisturbedStepsAndTheSumOfTheOthers) {
  const std::vector<StepTrace> ideal{step({operation("linear", 0, 10)}, {}),
                                     step({operation("linear", 0, 90)}, {}),
                                     step({operation("linear", 0, 12)}, {})};
  const std::vector<StepTrace> steps{step({operation("linear", 20, 32)}, {kComm}),
                                     step({operation("linear", 30, 48)}, {kComm})};
  const BesideComm result = beside_comm(steps, ideal);
  EXPECT_DOUBLE_EQ(result.with_ms, 12 + 18);
  EXPECT_DOUBLE_EQ(result.without_ms, 12 + 12);
  EXPECT_DOUBLE_EQ(result.slower(), 0.25);
}

TEST(BesideComm, LeavesOutPhasesOtherLanesAndWhatTheIdealDoesNotHave) {
  std::vector<ScopeTimes> scopes{operation("injected_delay", 20, 30), operation("linear", 30, 40)};
  scopes.push_back({.name = "load", .lane = Lane::data, .depth = 0, .begin = 20, .end = 40});
  const BesideComm result =
      beside_comm({step(scopes, {kComm})}, {step({operation("linear", 0, 10)}, {})});
  EXPECT_EQ(result.operations, 1U) << "linear; not the backward around it";
  EXPECT_DOUBLE_EQ(result.slower(), 0.0);
}

TEST(BesideComm, IsNothingWhereNothingRanBesideCommunication) {
  const BesideComm result = beside_comm({step({operation("linear", 0, 20)}, {kComm})},
                                        {step({operation("linear", 0, 10)}, {})});
  EXPECT_EQ(result.operations, 0U) << "it ends where the collective begins";
  EXPECT_EQ(result.slower(), 0.0);
}

}  // namespace
}  // namespace brigade::apps
