#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "core/io/file_descriptor.h"
#include "dist/comm/communicator.h"
#include "dist/sockets/handshake.h"
#include "dist/sockets/socket_address.h"

namespace brigade::dist {

/// Ports at which the ranks of a group call each other, open as long as this lives.
struct Rendezvous {
  int rank = 0;                     ///< of this process in the group
  FileDescriptor listener;          ///< its port
  std::vector<Endpoint> endpoints;  ///< of all ranks
  JobToken token{};                 ///< of the job: turns strangers away
};

/// Opens a port on every rank of `control` and tells all ranks. Collective. UsageError: see
/// make_endpoint().
Rendezvous open_rendezvous(Communicator& control);

/// Connects those ranks of the group that are in `members`, in rising order, with each other:
/// element i leads to members[i], the own one is empty. All of them call it at the same time with
/// the same `members`. What calls for other members finds nobody. Needs no communicator, so it
/// works when some of the group are gone. Errors: those of connect_all().
std::vector<FileDescriptor> connect_members(const Rendezvous& rendezvous,
                                            std::span<const int> members,
                                            std::chrono::seconds patience);

/// Connects every rank of `control` with every other by TCP over IPv4: element r leads to rank r,
/// the own one is empty. Nagle's delay is off. Collective.
///
/// Ranks on one host talk over loopback. Otherwise a rank is reached at the address of an interface
/// in a subnet that both have, else at any of its addresses, one after the other. An address that
/// several hosts claim (a container bridge) is not used. The environment variable
/// BRIGADE_SOCKET_IFNAME, such as eth0, restricts this rank to one interface.
///
/// Until all are connected, each rank listens: on one machine at loopback only, else at the
/// interface chosen, else at all. Strangers who call are turned away (handshake.h) and hold up
/// nobody.
///
/// Errors, each naming ranks and addresses: no such interface (UsageError), a rank that cannot be
/// reached, one that has not called within 30 s.
std::vector<FileDescriptor> connect_all(Communicator& control);

/// From now on a peer counts as gone that takes no data for 30 s, as if its host had lost power.
/// Only for peers that read all the time: one that computes lets a large message wait for longer.
void expect_prompt_readers(std::span<const FileDescriptor> sockets);

}  // namespace brigade::dist
