#pragma once

#include <vector>

#include "core/io/file_descriptor.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// Connects every rank of `control` with every other by TCP over IPv4: element r leads to rank r,
/// the own one is empty. Nagle's delay is off. Collective.
///
/// Ranks on one host talk over loopback. Otherwise a rank is reached at the address of an interface
/// in a subnet that both have, else at any of its addresses, one after the other. An address that
/// several hosts claim (a container bridge) is not used. The environment variable
/// BRIGADE_SOCKET_IFNAME, such as eth0, restricts this rank to one interface.
///
/// Errors, each naming ranks and addresses: no such interface (UsageError), a rank that cannot be
/// reached, one that has not called within 30 s.
std::vector<FileDescriptor> connect_all(Communicator& control);

}  // namespace brigade::dist
