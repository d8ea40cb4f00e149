// brigade_doctor: where the ranks of a job run, how fast their links are, and what to fix.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "apps/doctor/doctor.h"
#include "apps/flags/command_line.h"
#include "apps/metrics/figure.h"
#include "apps/report/console.h"
#include "apps/training/program.h"
#include "apps/training/runtime.h"
#include "core/cpu/threads.h"

namespace brigade::apps {

namespace {

std::string text_of(const AlphaBeta& link) {
  const double rate = link.gigabytes_per_s();
  return rate > 0.0 ? fmt::format("{:.1f} us, {:.3f} GB/s", link.alpha_us, rate) : "-";
}

std::string table_of(const std::vector<RankFacts>& ranks) {
  TextGrid grid{{"rank", "host", "device", "interface", "to next rank of host", "to next host"}};
  for (const RankFacts& rank : ranks) {
    grid.push_back({std::to_string(rank.rank), rank.host, rank.device, rank.transport,
                    text_of(rank.same_host), text_of(rank.between_hosts)});
  }
  return fmt::format("{}\n", fmt::join(text_table(grid), "\n"));
}

/// What there is to say about this job, on all ranks.
int examine(bool json, bool strict, const dist::RankInfo& ranks) {
  const Console console(ranks.rank == 0, Console::Target::out, "never");
  set_cpu_threads(std::min(ranks.threads, max_cpu_threads()));
  const auto control = dist::make_communicator("mpi", kCpu);
  const Device device = find_device("auto", ranks, *control, console);
  const auto comm = dist::make_communicator("auto", device);
  RankFacts mine = collect_facts(ranks, device, *control, *comm);
  measure_links(gather_facts(mine, *control), device, *comm, mine);
  const std::vector<RankFacts> all = gather_facts(mine, *control);
  const std::vector<std::string> warnings = warnings_of(all, /*with_gpus=*/true);
  console.result(json               ? facts_json(all, warnings)
                 : warnings.empty() ? table_of(all) + "all is well\n"
                                    : fmt::format("{}warning: {}\n", table_of(all),
                                                  fmt::join(warnings, "\nwarning: ")));
  return strict && !warnings.empty() ? 3 : 0;
}

int run(int argc, const char* const* argv) {
  CLI::App app("Shows hosts and links of a job's ranks, and warns of traps.", "brigade_doctor");
  prepare_command_line(app);
  bool json = false;
  bool strict = false;
  app.add_flag("--json", json, "print JSON only");
  app.add_flag("--strict", strict, "exit code 3 if there is a warning");
  return run_program(parse_command_line(app, argc, argv, [] {}),
                     [&](const dist::RankInfo& ranks) { return examine(json, strict, ranks); });
}

}  // namespace

}  // namespace brigade::apps

// NOLINTNEXTLINE(bugprone-exception-escape): add_flag() throws only for a name that is no flag
int main(int argc, char** argv) {
  return brigade::apps::run(argc, argv);
}
