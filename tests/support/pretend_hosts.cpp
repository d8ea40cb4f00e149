#include "tests/support/pretend_hosts.h"

#include <unistd.h>

#include <cstdlib>

namespace brigade::test {
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
  const std::string remove =
      command_to_remove_old_labs("netlab.sh", "NETLAB", "bt", "/tmp/netlab.bt");
  return std::system(remove.c_str()) == 0 ? "" : "the lab of a killed test cannot be removed";
}

std::string netlab() {
  return "NETLAB=bt" + std::to_string(::getpid()) + " " BRIGADE_SOURCE_DIR "/scripts/netlab.sh";
}

std::string command_to_remove_old_labs(const std::string& script, const std::string& variable,
                                       const std::string& prefix, const std::string& directory) {
  return "for old in " + directory + "*; do pid=${old##*." + prefix +
         "}; [ ! -d $old ] || [ -d /proc/$pid ] || " + variable + "=" + prefix +
         "$pid " BRIGADE_SOURCE_DIR "/scripts/" + script + " down; done";
}

}  // namespace brigade::test
