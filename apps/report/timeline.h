#pragma once

#include <string>
#include <vector>

#include "apps/metrics/run_trace.h"

/// timeline.html: what all ranks did, to look at without any tool.
namespace brigade::apps {

/// The panels below each other, on one scale: a heading, a caption, the picture of all steps, the
/// picture of the median step enlarged, and a table of the ranks' figures, medians over the
/// recorded steps. HTML for html_part("page").
std::string timeline_panels(const std::vector<RunTrace>& traces);

/// A page of its own, with the losses in `metrics`, the lines of metrics.jsonl, above them.
std::string timeline_html(const std::string& title, const std::vector<RunTrace>& traces,
                          const std::string& metrics = {});

}  // namespace brigade::apps
