#pragma once

#include <string>

#include "apps/compare/comparison_report.h"

namespace brigade::apps {

/// compare.html: the table, bars of the step times, the reading, and every mode's time line on one
/// scale. The numbers are those of the terminal's table.
std::string comparison_html(const RunInfo& info, const Comparison& result);

}  // namespace brigade::apps
