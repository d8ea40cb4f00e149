#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "apps/doctor/doctor.h"
#include "apps/metrics/figure.h"
#include "core/cpu/threads.h"
#include "core/error.h"
#include "core/io/checksum.h"
#include "dist/comm/gather.h"
#include "dist/sockets/socket_address.h"

namespace brigade::apps {

// to_json and from_json are names nlohmann-json looks for.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AlphaBeta, alpha_us, ns_per_byte)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFacts, rank, node, host, device, gpu, cpu, libraries,
                                   program, threads, cores, cpu_quota, transport, has_infiniband,
                                   interfaces, nccl_interfaces, loopback_name, shared_mib,
                                   locked_mib, clock_ms, same_host, between_hosts)

namespace {

/// The group of `pattern` in the first line of `path` that matches it; else empty.
std::string find_in(const char* path, const std::string& pattern) {
  std::ifstream file(path);
  const std::regex wanted(pattern);
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_search(line, match, wanted)) {
      return match[1];
    }
  }
  return "";
}

}  // namespace

RankFacts collect_facts(const dist::RankInfo& ranks, Device device,
                        const dist::Communicator& control, const dist::Communicator& comm) {
  RankFacts facts{ranks.rank, ranks.node_rank, ranks.host, fmt::format("{}", device)};
  facts.cpu = find_in("/proc/cpuinfo", "^(?:model name|CPU part)\\s*: (.*)");
  const std::string blas = blas_description();  // "... (Haswell kernels)" follows from the CPU
  facts.libraries = fmt::format("{}, {}", control.description(), blas.substr(0, blas.rfind(" (")));
  facts.gpu = device.is_cuda() ? gpu_identity(device.index).uuid : "";
  facts.libraries +=
      ", " + (device.is_cuda() ? fmt::format("{}, {}", cuda_info().runtime, comm.description())
                               : bf16_description());
  std::ifstream program("/proc/self/exe", std::ios::binary);
  ChecksumOfPieces sum;
  std::vector<char> piece(std::size_t{1} << 16U);  // new memory for the whole file costs 5 ms
  while (program.read(piece.data(), std::ssize(piece)).gcount() > 0) {
    sum.add(std::as_bytes(std::span(piece).first(static_cast<std::size_t>(program.gcount()))));
  }
  facts.program = fmt::format("program {:016x}", sum.result().xxh3);
  facts.threads = cpu_threads();
  facts.cores = dist::bound_cores();
  facts.loopback_name =
      find_in("/etc/hosts", "^(127\\.\\S+)\\s([^#]*\\s)?" + ranks.host + "(\\s|$)");

  const std::string description = comm.description();  // may be "TCP sockets (10.0.0.1, ...)"
  facts.transport = description.substr(0, description.find(','));
  std::vector<dist::NamedInterface> up;
  try {
    up = dist::interfaces_up();
  } catch (const Error&) {  // no file descriptors left: code that needs one reports it
  }
  for (const dist::NamedInterface& interface : up) {
    facts.interfaces.push_back(interface.name);
    const std::string address = "[( ]" + dist::address_text(interface.address) + "[,)]";
    if (std::regex_search(description, std::regex(address))) {
      facts.transport = interface.name;
    }
  }
  const char* chosen = std::getenv("NCCL_SOCKET_IFNAME");
  facts.nccl_interfaces = chosen != nullptr ? chosen : "";
  std::error_code error;
  facts.has_infiniband = !std::filesystem::is_empty("/sys/class/infiniband", error) && !error;

  struct statvfs shared {};
  statvfs("/dev/shm", &shared);
  facts.shared_mib = static_cast<double>(shared.f_bavail * shared.f_frsize) * kMiB;
  rlimit locked{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  facts.locked_mib = static_cast<double>(locked.rlim_cur) * kMiB;
  const std::string group = find_in("/proc/self/cgroup", "^0::(.*)");
  double period = 1.0;  // "max 100000": no limit, the quota stays 0
  std::ifstream("/sys/fs/cgroup" + group + "/cpu.max") >> facts.cpu_quota >> period;
  facts.cpu_quota /= period;
  return facts;
}

std::vector<RankFacts> gather_facts(const RankFacts& mine, dist::Communicator& control) {
  std::vector<RankFacts> all;
  for (const std::string& text : dist::all_gather_sequences(control, nlohmann::json(mine).dump())) {
    all.push_back(nlohmann::json::parse(text).get<RankFacts>());
  }
  return all;
}

std::string facts_json(const std::vector<RankFacts>& ranks,
                       const std::vector<std::string>& warnings) {
  const nlohmann::json json{{"ranks", ranks}, {"warnings", warnings}};
  return json.dump(2) + "\n";
}

}  // namespace brigade::apps
