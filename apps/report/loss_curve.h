#pragma once

#include <string>

namespace brigade::apps {

/// The losses in `metrics`, the lines of metrics.jsonl, over the steps, as a section of HTML: a
/// line for training, a dot for each test. Empty if there are fewer than two lines with a loss.
std::string loss_curve(const std::string& metrics);

}  // namespace brigade::apps
