#include "dist/sockets/socket_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "core/error.h"

namespace brigade::dist {
namespace {

constexpr const char* kChosen = "BRIGADE_SOCKET_IFNAME";

std::vector<Interface> find_interfaces() {
  const char* wanted = std::getenv(kChosen);
  std::vector<Interface> found;
  std::string names;
  for (const NamedInterface& interface : interfaces_up()) {
    names += ' ' + interface.name;
    if (wanted == nullptr || wanted == interface.name) {
      found.push_back(interface);
    }
  }
  if (wanted != nullptr && found.empty()) {
    throw UsageError(
        fmt::format("sockets: {}={}: expected an interface that is up and has an IPv4 address, of "
                    "which there is{}",
                    kChosen, wanted, names.empty() ? " none" : names));
  }
  return found;
}

}  // namespace

std::string namespace_identity(const std::string& kind) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code unknown;
  return boot + ' ' + std::filesystem::read_symlink("/proc/self/ns/" + kind, unknown).string();
}

std::vector<NamedInterface> interfaces_up() {
  ifaddrs* list = nullptr;
  BRIGADE_CHECK(getifaddrs(&list) == 0, "sockets: cannot list interfaces: {}",
                std::strerror(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<NamedInterface> found;
  for (const ifaddrs* it = list; it != nullptr; it = it->ifa_next) {
    const bool up = (it->ifa_flags & IFF_UP) != 0 && (it->ifa_flags & IFF_LOOPBACK) == 0;
    if (up && it->ifa_addr != nullptr && it->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(it->ifa_addr);
      const auto* mask = reinterpret_cast<const sockaddr_in*>(it->ifa_netmask);
      found.push_back({{address->sin_addr.s_addr, mask->sin_addr.s_addr}, it->ifa_name});
    }
  }
  return found;
}

Endpoint make_endpoint() {
  Endpoint endpoint;
  const std::string machine = namespace_identity("net");
  std::copy_n(machine.begin(), std::min(machine.size(), endpoint.machine.size()),
              endpoint.machine.begin());
  const std::vector<Interface> interfaces = find_interfaces();
  endpoint.interface_count = std::min(interfaces.size(), endpoint.interfaces.size());
  std::copy_n(interfaces.begin(), endpoint.interface_count, endpoint.interfaces.begin());
  if (std::getenv(kChosen) != nullptr) {
    endpoint.address = interfaces.front().address;
  }
  return endpoint;
}

std::vector<std::uint32_t> candidates(const Endpoint& mine, const Endpoint& peer,
                                      std::span<const Endpoint> all) {
  if (peer.address != 0) {
    return {peer.address};
  }
  if (mine.machine == peer.machine) {
    return {htonl(INADDR_LOOPBACK)};
  }
  std::vector<std::uint32_t> near;
  std::vector<std::uint32_t> far;
  for (const Interface& theirs : peer.known()) {
    const bool claimed_twice = std::ranges::any_of(all, [&](const Endpoint& other) {
      return other.machine != peer.machine &&
             std::ranges::find(other.known(), theirs) != other.known().end();
    });
    const bool in_my_subnet = std::ranges::any_of(mine.known(), [&](const Interface& our) {
      return our.mask == theirs.mask && (our.address & our.mask) == (theirs.address & our.mask);
    });
    if (!claimed_twice) {
      (in_my_subnet ? near : far).push_back(theirs.address);
    }
  }
  near.insert(near.end(), far.begin(), far.end());
  return near;
}

std::string address_text(std::uint32_t address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &address, text.data(), text.size());
  return text.data();
}

}  // namespace brigade::dist
