#pragma once

#include <string>
#include <vector>

#include "apps/flags/options.h"

namespace brigade::apps {

/// UsageError for flags that together have no meaning or would train wrongly.
void check_combinations(const Options& options);

/// What to say of flags that have no effect next to others.
std::vector<std::string> idle_flags(const Options& options);

}  // namespace brigade::apps
