#pragma once

#include <string>

namespace brigade::test {

/// Why there can be no pretend hosts (scripts/netlab.sh) on this machine; empty if there can.
std::string obstacle_to_pretend_hosts();

/// The command of netlab.sh, for a lab of this process alone.
std::string netlab();

}  // namespace brigade::test
