#include "apps/metrics/figure.h"

#include <gtest/gtest.h>

namespace brigade::apps {
namespace {

const Figures kFigures{{"step_ms", 1.25, "step", "median {:.2f} ms"},
                       {"steps", 7},
                       {"compute", 0.5, "step", "computing {:.0f} %", kPercent},
                       {"memory/peak", 3U << 19U, "memory", "{:.1f} MiB", kMiB},
                       {"hidden", nullptr, "memory", "hidden {:.0f} %", kPercent}};

TEST(Figures, AreInTheFileUnderTheirKeysAndWithoutScale) {
  const Json expected{{"step_ms", 1.25},
                      {"steps", 7},
                      {"compute", 0.5},
                      {"memory", {{"peak", 3U << 19U}}},
                      {"hidden", nullptr}};
  EXPECT_EQ(json_of(kFigures), expected);
}

TEST(Figures, ShareALineOfTheScreenIfTheyHaveOnePlace) {
  EXPECT_EQ(lines_of(kFigures),
            (std::vector<std::string>{"step: median 1.25 ms, computing 50 %", "memory: 1.5 MiB"}));
}

TEST(Figures, AreColumnsOfATableWithADashForNull) {
  const TextGrid grid = grid_of("rank", {{"zero", kFigures}});
  const TextGrid expected{{"rank", "step", "step", "memory", "memory"},
                          {"zero", "median 1.25 ms", "computing 50 %", "1.5 MiB", "-"}};
  EXPECT_EQ(grid, expected);
}

TEST(Figures, StandBelowTheirHeadings) {
  EXPECT_EQ(text_table({{"mode", "step"}, {"per_param", "1.25"}, {"flat", "12.50"}}),
            (std::vector<std::string>{"mode        step", "per_param   1.25", "flat       12.50"}));
}

}  // namespace
}  // namespace brigade::apps
