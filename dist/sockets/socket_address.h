#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Addresses of the sockets of a rank. IPv4; addresses and ports in network byte order.
namespace brigade::dist {

struct Interface {
  std::uint32_t address = 0;
  std::uint32_t mask = 0;
  friend bool operator==(const Interface&, const Interface&) = default;
};

/// Equal for two processes exactly if they share a kernel and its namespace of this kind
/// (namespaces(7): "net", "pid"). Host names are not enough: two containers may have the same one.
std::string namespace_identity(const std::string& kind);

struct NamedInterface : Interface {
  std::string name;  ///< "eth0"
};
/// The interfaces of this process that are up and have an IPv4 address, other than loopback.
std::vector<NamedInterface> interfaces_up();

/// Where a rank can be reached. Trivially copyable, for all_gather_values.
struct Endpoint {
  std::array<char, 128> machine{};  ///< equal for two ranks that reach each other over loopback
  std::array<Interface, 16> interfaces{};
  std::size_t interface_count = 0;
  std::uint32_t address = 0;  ///< at which it listens; 0: at all
  std::uint16_t port = 0;

  std::span<const Interface> known() const { return {interfaces.data(), interface_count}; }
};

/// This rank's endpoint, without a port: the interfaces that are up, other than loopback, or the
/// one that the environment variable BRIGADE_SOCKET_IFNAME names, whose address it then has.
/// UsageError if there is none of that name.
Endpoint make_endpoint();

/// Addresses at which `mine` tries to reach `peer`, best first: the one at which it listens. If it
/// listens at all: loopback on one machine, else the interfaces in a common subnet, then the
/// others. Leaves out an address that several machines have, such as a container bridge. `all`: the
/// endpoints of all ranks.
std::vector<std::uint32_t> candidates(const Endpoint& mine, const Endpoint& peer,
                                      std::span<const Endpoint> all);

/// "10.0.0.1"
std::string address_text(std::uint32_t address);

}  // namespace brigade::dist
