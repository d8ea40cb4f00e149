#pragma once

#include <string>
#include <vector>

#include "apps/metrics/run_trace.h"

/// timeline.html: what all ranks did, to look at without any tool.
namespace brigade::apps {

/// The scales that several panels share, in ms per full width.
struct TimelineScales {
  double all_steps = 0.0;
  double one_step = 0.0;  ///< of the enlarged one
};

TimelineScales common_scales(const std::vector<RunTrace>& panels);

/// A heading, a caption, the picture of all steps, the picture of the median step enlarged, and a
/// table of the ranks' figures: medians over the recorded steps. HTML for an html_page().
std::string timeline_panel(const RunTrace& trace, const TimelineScales& scales);

/// What blocks and patterns mean, in one line.
std::string timeline_key();

/// How each number is computed.
std::string timeline_reading();

/// A page of its own: the panels below each other, on one scale.
std::string timeline_html(const std::string& title, const std::vector<RunTrace>& panels);

}  // namespace brigade::apps
