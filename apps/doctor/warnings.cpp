#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "apps/doctor/doctor.h"

namespace brigade::apps {

namespace {

/// Lines of `what` is wrong and a remedy, each remedy once.
struct Lines {
  template <class... Values>
  void add(const std::string& remedy, const char* what, const Values&... values) {
    const auto is_known = [&](const std::string& line) { return line.ends_with(remedy); };
    if (std::ranges::none_of(texts, is_known)) {
      texts.push_back(fmt::format(fmt::runtime(what), values...) + ": " + remedy);
    }
  }
  std::vector<std::string> texts = {};
};

/// Ranks that differ from rank 0.
void compare(const RankFacts& first, const RankFacts& rank, Lines& lines) {
  const std::pair<std::string RankFacts::*, const char*> facts[]{
      {&RankFacts::program, "copy one build to all hosts"},
      {&RankFacts::libraries, "use equal versions, CPUs and --threads on all ranks"},
      {&RankFacts::cpu, "choose hosts of one kind, the slowest sets the pace"}};
  for (const auto& [fact, remedy] : facts) {
    if (rank.*fact != first.*fact) {
      lines.add(remedy, "rank {} ({}) has {}, rank 0 ({}) has {}", rank.rank, rank.host, rank.*fact,
                first.host, first.*fact);
    }
  }
}

/// Cores and GPUs that the ranks of a host share.
void check_shares(const std::vector<RankFacts>& on_host, bool with_gpus, Lines& lines) {
  const RankFacts& first = on_host[0];
  const std::size_t ranks = on_host.size();
  std::set<std::string> cores;
  std::set<std::string> gpus;
  std::size_t threads = 0;
  for (const RankFacts& rank : on_host) {
    cores.insert(rank.cores.begin(), rank.cores.end());
    gpus.insert(rank.gpu);
    threads += static_cast<std::size_t>(rank.threads);
  }
  const auto quota = static_cast<std::size_t>(std::max(1.0, first.cpu_quota));
  const std::size_t usable = first.cpu_quota > 0.0 ? std::min(cores.size(), quota) : cores.size();
  if (threads > usable) {
    lines.add(usable >= ranks
                  ? fmt::format("train with --threads {}", usable / ranks)
                  : fmt::format("start only {0} (mpirun --map-by ppr:{0}:node), or use more cores",
                                usable),
              "{}: {} ranks compute with {} threads, usable cores {}", first.host, ranks, threads,
              usable);
  }
  if (with_gpus && !first.gpu.empty() && gpus.size() < ranks) {
    lines.add(fmt::format("start one rank per GPU (mpirun --map-by ppr:{}:node)", gpus.size()),
              "{}: {} ranks on {} GPU, timings mean nothing", first.host, ranks, gpus.size());
  }
}

/// Limits of the host of `rank`, which has `ranks`.
void check_memory(const RankFacts& rank, std::size_t ranks, Lines& lines) {
  // Open MPI has a segment of 4 MiB there, NCCL buffers for each peer on the host.
  const double needed = static_cast<double>(ranks) * (rank.gpu.empty() ? 8.0 : 64.0);
  if (rank.shared_mib < needed) {
    lines.add("mount -o remount,size=1G /dev/shm (docker run --shm-size=1g)",
              "{}: /dev/shm has {:.0f} MiB free, {} ranks may need {}", rank.host, rank.shared_mib,
              ranks, needed);
  }
  if ((rank.has_infiniband || !rank.gpu.empty()) && rank.locked_mib < 64.0) {
    lines.add("ulimit -l unlimited (docker run --ulimit memlock=-1)",
              "{}: a rank can lock {:.3g} MiB, RDMA needs more", rank.host, rank.locked_mib);
  }
}

/// What goes wrong only between hosts. `rank`: the first of its host.
void check_network(const RankFacts& rank, Lines& lines) {
  if (rank.has_infiniband && std::ranges::count(rank.interfaces, rank.transport) > 0) {
    lines.add("use --comm mpi and mpirun --mca pml ucx",
              "{} has InfiniBand, but gradients travel over TCP", rank.host);
  }
  if (!rank.gpu.empty() && rank.nccl_interfaces.empty() && rank.interfaces.size() > 1) {
    lines.add("mpirun -x NCCL_SOCKET_IFNAME=" + rank.interfaces[0],
              "{}: NCCL has to guess among {}", rank.host, fmt::join(rank.interfaces, ", "));
  }
  if (!rank.loopback_name.empty()) {
    lines.add("write the address there that other hosts reach", "{} is {} in its /etc/hosts",
              rank.host, rank.loopback_name);
  }
  if (std::abs(rank.clock_ms) > 100.0) {
    lines.add("start chrony there", "{}: clock {:+.0f} ms off rank 0's", rank.host, rank.clock_ms);
  }
}

}  // namespace

std::vector<std::string> warnings_of(const std::vector<RankFacts>& ranks, bool with_gpus) {
  Lines lines;
  std::map<int, std::vector<RankFacts>> hosts;
  for (const RankFacts& rank : ranks) {
    compare(ranks[0], rank, lines);
    hosts[rank.node].push_back(rank);
  }
  for (const auto& [node, on_host] : hosts) {
    check_shares(on_host, with_gpus, lines);
    check_memory(on_host[0], on_host.size(), lines);
    if (hosts.size() > 1) {
      check_network(on_host[0], lines);
    }
  }
  return lines.texts;
}

}  // namespace brigade::apps
