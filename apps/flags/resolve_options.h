#pragma once

#include <string>

#include "apps/flags/options.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace brigade::apps {

/// Flags that were read one by one, put together: fills in defaults that depend on other flags and
/// refuses what does not go together. UsageError with one line for the user.
void resolve_options(const CLI::App& app, Options& o);

}  // namespace brigade::apps
