#include "apps/report/loss_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace brigade::apps {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(LossCurve, LiesBetweenZeroAndTheLargestLoss) {
  const std::string html = loss_curve(R"({"step":0,"loss":4.0}
{"step":50,"loss":2.0}
{"step":100,"loss":1.0,"test_loss":3.0}
)");
  // The plot is 1054 wide from 132 and 240 high from 12.
  EXPECT_THAT(html,
              HasSubstr(R"(<line class="curve" x1="132.00" y1="12.0" x2="659.00" y2="132.0"/>)"));
  EXPECT_THAT(html,
              HasSubstr(R"(<line class="curve" x1="659.00" y1="132.0" x2="1186.00" y2="192.0"/>)"));
  EXPECT_THAT(html, HasSubstr("test after step 100: 3.0000"));
  EXPECT_THAT(html, HasSubstr("from 4.0000 to 1.0000"));
}

TEST(LossCurve, LeavesOutWhatHasNoLoss) {
  EXPECT_THAT(loss_curve(""), IsEmpty());
  EXPECT_THAT(loss_curve("{\"step\":1,\"loss\":4.0}\n"), IsEmpty()) << "a point is no curve";
  // A loss that is not finite is null in JSON; a killed process leaves half a line.
  const std::string html = loss_curve(R"({"step":1,"loss":4.0}
{"step":2,"loss":null}
{"step":3,"loss":2.0}
{"step":4,"lo)");
  EXPECT_THAT(html, HasSubstr(R"(x1="483.33")"));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace brigade::apps
