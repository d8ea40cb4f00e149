#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/metrics/alpha_beta.h"
#include "apps/metrics/timing_summary.h"
#include "dist/launch/launch.h"

namespace brigade::apps {

/// What one rank knows about itself and its host.
struct RankFacts {
  int rank = 0;
  int node = 0;                ///< number of its host (dist::Placement)
  std::string host = {};       ///< name of its host
  std::string device = {};     ///< "cpu", "cuda:0"
  std::string gpu = {};        ///< UUID; empty on the CPU
  std::string cpu = {};        ///< kind of CPU: "AMD EPYC 9654"
  std::string libraries = {};  ///< names and versions; a CPU's unit for bf16
  std::string program = {};    ///< "program " and a hash of the program's file
  int threads = 1;             ///< that compute
  std::set<std::string> cores = {};
  double cpu_quota = 0.0;                    ///< cores that the cgroup allows; 0: no limit
  std::string transport = {};                ///< interface, or what else carries the gradients
  bool has_infiniband = false;               ///< the host does
  std::vector<std::string> interfaces = {};  ///< that are up, without loopback
  std::string nccl_interfaces = {};          ///< NCCL_SOCKET_IFNAME
  std::string loopback_name = {};  ///< /etc/hosts: the host's name is this 127.x.y.z; or empty
  double shared_mib = 0.0;         ///< free in /dev/shm
  double locked_mib = 0.0;         ///< RLIMIT_MEMLOCK
  double clock_ms = 0.0;           ///< the time of day minus rank 0's; 0: not measured
  AlphaBeta same_host = {};        ///< link to the next rank of this host; 0: not measured
  AlphaBeta between_hosts = {};    ///< link to the next host, on the first rank of a host
};

/// All but clock and links. `comm` carries the gradients, `control` is MPI. Asks the kernel,
/// files and libraries, no name server: takes a few ms.
RankFacts collect_facts(const dist::RankInfo& ranks, Device device,
                        const dist::Communicator& control, const dist::Communicator& comm);

/// The facts of all ranks, on all ranks. Collective.
std::vector<RankFacts> gather_facts(const RankFacts& mine, dist::Communicator& control);

/// Measures clock and links of `mine`. Takes less than a second on links of 200 Mbit/s and more.
/// Collective over `comm`, which carries the gradients of tensors on `device`. `ranks`: all facts.
///
/// All links of a class are busy at the same time and in both directions, as in a ring all-reduce:
/// first every rank sends to the next one on its host, then the first rank of every host to that of
/// the next.
void measure_links(const std::vector<RankFacts>& ranks, Device device, dist::Communicator& comm,
                   RankFacts& mine);

/// The host whose links are slower than those of the others, if there is one: a message to the next
/// or to the previous host takes at least half as long again as the others' median. Named by its
/// first rank. Of fewer than three hosts nobody can tell whose link it is.
///
/// Neighbours exchange messages pair by pair, in three rounds however many hosts there are. Takes
/// less than a second on links of 200 Mbit/s and more. Collective over `comm`, which carries the
/// gradients of tensors on `device`.
std::optional<Straggler> find_slow_link(const dist::Placement& place, Device device,
                                        dist::Communicator& comm);

/// The same from `ms`: for each rank the time of its host's faster link, 0 where it took no part.
std::optional<Straggler> slow_link_of(const std::vector<double>& ms);

/// What is wrong with the places where `ranks` (of a whole job) run: one line each, with what to do
/// about it. Empty if all is well. Hosts that need the same remedy share a line about the first.
/// `with_gpus`: also whether ranks share a GPU, of which make_communicator warns by itself.
std::vector<std::string> warnings_of(const std::vector<RankFacts>& ranks, bool with_gpus);

/// {"ranks": [...], "warnings": [...]}
std::string facts_json(const std::vector<RankFacts>& ranks,
                       const std::vector<std::string>& warnings);

}  // namespace brigade::apps
