// bench_all_reduce: times and checks all-reduces of growing size, like nccl-tests' all_reduce_perf.
#include "apps/bench/all_reduce_case.h"
#include "apps/bench/bench_options.h"
#include "apps/bench/bench_table.h"
#include "apps/report/console.h"
#include "apps/training/program.h"
#include "apps/training/runtime.h"
#include "core/error.h"
#include "dist/comm/agreement.h"
#include "dist/launch/launch.h"

namespace brigade::apps {

namespace {

void print(const Console& console, const std::vector<BenchResult>& results,
           const BenchOptions& options, const dist::RankInfo& ranks) {
  if (options.json) {
    console.result(bench_json(results, options, ranks.size));
    return;
  }
  std::string text =
      fmt::format("# {} ranks on {} host(s); time: median of {} runs, slowest rank\n\n", ranks.size,
                  ranks.hosts, options.iterations);
  for (const BenchResult& result : results) {
    text += bench_table(result, ranks.size) + "\n";
  }
  console.result(text);
}

void check_sums(const std::vector<BenchResult>& results) {
  for (const BenchResult& result : results) {
    for (const BenchRow& row : result.rows) {
      if (row.wrong > 0) {
        throw VerificationError(
            fmt::format("bench_all_reduce: --comm {}, {} bytes: expected exact sums, got {} wrong "
                        "elements; see the columns #wrong",
                        result.name, row.bytes, row.wrong));
      }
    }
  }
}

int bench(const BenchOptions& options, const dist::RankInfo& ranks) {
  const Console console(ranks.rank == 0, options.json ? Console::Target::err : Console::Target::out,
                        "never");
  const auto control = dist::make_communicator("mpi", kCpu);
  dist::check_same_lines("flags", options.config, *control);
  const Device device = find_device(options.device, ranks, *control, console);
  std::vector<AllReduceCase> cases;
  for (const std::string& comm : options.comms) {
    cases.emplace_back(comm, dist::make_communicator(comm, device), options, device);
  }
  const std::vector<BenchResult> results = run_alternating(cases, options, *control);
  print(console, results, options, ranks);
  check_sums(results);
  return 0;
}

int run(int argc, const char* const* argv) {
  const Parsed<BenchOptions> parsed = parse_bench_options(argc, argv);
  return run_program(parsed.exit,
                     [&](const dist::RankInfo& ranks) { return bench(parsed.options, ranks); });
}

}  // namespace

}  // namespace brigade::apps

int main(int argc, char** argv) {
  return brigade::apps::run(argc, argv);
}
