#include "core/error.h"

#include <gtest/gtest.h>

namespace brigade {
namespace {

TEST(ReportLine, IsOneLineWhateverItsTextHoldsAndKeepsUtf8) {
  testing::internal::CaptureStderr();
  report_line("weight\n\033[31m of café");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "weight??[31m of café\n");
}

}  // namespace
}  // namespace brigade
