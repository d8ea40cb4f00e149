#include "tests/support/pretend_hosts.h"

#include <unistd.h>

#include <cstdlib>

namespace brigade::test {
namespace {

/// A test that ctest has killed leaves its lab behind.
constexpr const char* kRemoveOldLabs =
    "for old in /tmp/netlab.bt*; do [ ! -d $old ] || [ -d /proc/${old##*.bt} ] || "
    "NETLAB=bt${old##*.bt} " BRIGADE_SOURCE_DIR "/scripts/netlab.sh down; done";

}  // namespace

std::string obstacle_to_pretend_hosts() {
  if (::geteuid() != 0) {
    return "network namespaces need root";
  }
  const std::string name = "brigade-probe-" + std::to_string(::getpid());
  const std::string probe = "ip netns add " + name + " 2>/dev/null && ip netns exec " + name +
                            " tc qdisc show >/dev/null 2>&1 && ip netns del " + name;
  if (std::system(probe.c_str()) != 0) {
    return "ip netns or tc does not work on this machine";
  }
  return std::system(kRemoveOldLabs) == 0 ? "" : "the lab of a killed test cannot be removed";
}

std::string netlab() {
  return "NETLAB=bt" + std::to_string(::getpid()) + " " BRIGADE_SOURCE_DIR "/scripts/netlab.sh";
}

}  // namespace brigade::test
