#include "apps/report/report.h"

#include <gmock/gmock.h>

namespace brigade::apps {
namespace {

using testing::HasSubstr;

TEST(Report, SaysHowMuchOfTheCommunicationIsHidden) {
  RunInfo info;
  RunResult result;
  result.timing.communicates = true;
  result.timing.median.comm = 8.0;
  result.timing.median.exposed = 2.0;
  result.timing.hidden_fraction = 0.75;
  result.traffic.collectives = 3;
  result.traffic.bytes_reduced = 5U << 19U;
  result.traffic.bytes_sent = 3U << 19U;
  testing::internal::CaptureStdout();
  print_result({true, Console::Target::out, "never"}, info, result, {});
  EXPECT_THAT(
      testing::internal::GetCapturedStdout(),
      HasSubstr("communication: 8.00 ms per step, exposed 2.00 ms, hidden behind "
                "computation 75 %, collectives 3, 2.50 MiB reduced, 1.50 MiB sent by rank 0\n"));
}

// One rank in mode naive waits for its own collectives, which are none.
TEST(Report, ShowsAWaitAlsoWithoutCommunication) {
  RunResult result;
  const auto last_lines = [&result](const std::vector<std::string>& files) {
    testing::internal::CaptureStdout();
    print_result({true, Console::Target::out, "never"}, {}, result, files);
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_THAT(last_lines({"a", "b"}), HasSubstr("wrote a, b\n"));
  EXPECT_THAT(last_lines({}), testing::Not(HasSubstr("wrote")));
  EXPECT_THAT(last_lines({}), testing::Not(HasSubstr("waiting for gradients")));
  result.timing.median.wait = 0.14;
  EXPECT_THAT(last_lines({}), HasSubstr("waiting for gradients 0.14 ms, optimizer"));
}

TEST(Report, ListsRebuiltBucketsThatHoldOtherParameters) {
  const auto shown = [](const std::vector<BucketInfo>& before, const std::vector<BucketInfo>& now) {
    testing::internal::CaptureStdout();
    print_rebuilt_buckets({true, Console::Target::out, "never"}, before, now);
    return testing::internal::GetCapturedStdout();
  };
  const std::vector<BucketInfo> buckets{{"bucket_0", 8, {"b", "a"}}, {"bucket_1", 8, {"c"}}};
  const std::vector<BucketInfo> reordered{{"bucket_0", 8, {"a", "b"}}, {"bucket_1", 8, {"c"}}};
  EXPECT_THAT(shown(buckets, reordered), HasSubstr("ready; every bucket keeps its parameters\n"));
  const std::vector<BucketInfo> swapped{{"bucket_0", 8, {"c"}}, {"bucket_1", 8, {"b", "a"}}};
  EXPECT_THAT(shown(buckets, swapped), HasSubstr("b, a"));
}

TEST(Report, WarnsOfAHostWithSlowLinks) {
  RunResult result;
  result.timing.median.exposed = 50.0;
  result.timing.straggler = Straggler{
      .rank = 6, .reason = Straggler::Reason::network, .ms = 84.214, .others = 21.3, .share = 0.0};
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  print_result({true, Console::Target::out, "never"}, {}, result, {});
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "[rank 0] warning: the host of rank 6 has slow links: a message of 512 KiB each way "
            "takes 84.21 ms, between other hosts 21.30, and every step waits 50.00 ms for "
            "communication; look at its cable, its port of the switch and its other traffic\n");
}

}  // namespace
}  // namespace brigade::apps
