#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Where the sockets of a rank can be reached. IPv4; addresses and ports in network byte order.
namespace brigade::dist {

struct Interface {
  std::uint32_t address = 0;
  std::uint32_t mask = 0;
  friend bool operator==(const Interface&, const Interface&) = default;
};

/// What a rank tells the others about itself. Plain bytes, for all_gather.
struct Endpoint {
  std::array<char, 128> machine{};  ///< equal for two ranks that reach each other over loopback
  std::array<Interface, 16> interfaces{};
  std::size_t interface_count = 0;
  std::uint16_t port = 0;

  std::span<const Interface> known() const { return {interfaces.data(), interface_count}; }
};

/// This rank's card: the interfaces that are up, other than loopback, or the one that the
/// environment variable BRIGADE_SOCKET_IFNAME names. UsageError if there is none of that name.
Endpoint make_endpoint(std::uint16_t port);

/// Where `mine` should look for `peer`, the likeliest address first: loopback on one machine, else
/// the interfaces in a subnet that both have, then the others. Not those that several machines
/// claim to have, such as a container bridge. `all`: the cards of all ranks.
std::vector<std::uint32_t> candidates(const Endpoint& mine, const Endpoint& peer,
                                      std::span<const Endpoint> all);

/// "10.0.0.1"
std::string address_text(std::uint32_t address);

}  // namespace brigade::dist
