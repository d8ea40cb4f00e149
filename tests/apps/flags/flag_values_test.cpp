#include "apps/flags/flag_values.h"

#include "tests/support/expect_error.h"

namespace brigade::apps {
namespace {

TEST(FlagValues, WholeNumbersMustBeWholeAndInRange) {
  EXPECT_EQ(parse_number<std::int64_t>("--batch", "64", 1, 100), 64);
  EXPECT_ERROR_OF(UsageError, parse_number<std::int64_t>("--batch", "0", 1, 100),
                  "--batch: expected a whole number from 1 to 100, got \"0\"");
  EXPECT_ERROR_OF(UsageError, parse_number<std::int64_t>("--batch", "6.5", 1, 100),
                  "--batch: expected a whole number from 1 to 100, got \"6.5\"");
  EXPECT_ERROR_OF(UsageError, parse_number<std::int64_t>("--batch", "", 1, 100),
                  "--batch: expected a whole number from 1 to 100, got \"\"");
  EXPECT_THROW(parse_number<std::int64_t>("--batch", "99999999999999999999", 1, 100), UsageError);
  EXPECT_THROW(parse_number<std::uint64_t>("--seed", "-1", 0, 100), UsageError);
}

TEST(FlagValues, NumbersMustBeFinite) {
  constexpr double kMost = std::numeric_limits<double>::max();
  EXPECT_DOUBLE_EQ(parse_number("--lr", "1e-3", kAboveZero, kMost), 1e-3);
  EXPECT_ERROR_OF(UsageError, parse_number("--lr", "0", kAboveZero, kMost),
                  "--lr: expected a number greater than 0, got \"0\"");
  EXPECT_ERROR_OF(UsageError, parse_number("--momentum", "-0.5", 0.0, kMost),
                  "--momentum: expected a number from 0 up, got \"-0.5\"");
  EXPECT_THROW(parse_number("--lr", "nan", kAboveZero, kMost), UsageError);
  EXPECT_THROW(parse_number("--lr", "inf", kAboveZero, kMost), UsageError);
  EXPECT_THROW(parse_number("--lr", "0.1x", kAboveZero, kMost), UsageError);
}

TEST(FlagValues, WidthsAreSeparatedByCommas) {
  using Widths = std::vector<std::int64_t>;
  EXPECT_EQ(parse_widths("--hidden", "512,256,128"), (Widths{512, 256, 128}));
  EXPECT_EQ(parse_widths("--hidden", "none"), Widths{});
  EXPECT_THROW(parse_widths("--hidden", "512,"), UsageError);
  EXPECT_THROW(parse_widths("--hidden", ""), UsageError);
  EXPECT_THROW(parse_widths("--hidden", "512;256"), UsageError);
}

TEST(FlagValues, AWrongChoiceListsTheRightOnes) {
  EXPECT_ERROR_OF(UsageError, check_choice("--mode", "overlp", {"naive", "overlap"}),
                  "--mode: expected one of naive, overlap, got \"overlp\"; did you mean overlap?");
  EXPECT_NO_THROW(check_choice("--mode", "naive", {"naive", "overlap"}));
}

TEST(FlagValues, ClosestMatchForgivesTyposButDoesNotGuess) {
  const std::vector<std::string> flags{"--batch", "--bucket-mb", "--momentum", "--mode"};
  EXPECT_EQ(closest_match("--bacth", flags), "--batch");
  EXPECT_EQ(closest_match("--bucket_mb", flags), "--bucket-mb");
  EXPECT_EQ(closest_match("--momentun", flags), "--momentum");
  EXPECT_EQ(closest_match("--quantise", flags), "");
  EXPECT_EQ(closest_match("--bogus", {"--loss"}), "");
  EXPECT_EQ(closest_match("fast", {"flat", "naive"}), "");
}

}  // namespace
}  // namespace brigade::apps
