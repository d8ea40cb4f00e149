#pragma once

#include <string>

namespace brigade::test {

/// Why there can be no pretend hosts (scripts/netlab.sh) on this machine; empty if there can.
std::string obstacle_to_pretend_hosts();

/// The command of netlab.sh, for a lab of this process alone.
std::string netlab();

/// A test that ctest has killed leaves its lab behind. This shell command removes the labs of
/// `script` whose name, the value of `variable`, is `prefix` and the number of a process that has
/// ended.   directory: of a lab's state, up to that number
std::string command_to_remove_old_labs(const std::string& script, const std::string& variable,
                                       const std::string& prefix, const std::string& directory);

}  // namespace brigade::test
