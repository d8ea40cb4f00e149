// bench_all_reduce: times and checks all-reduces, one way against the other, as nccl-tests does.
#include "apps/bench/bench_contestants.h"
#include "apps/bench/bench_options.h"
#include "apps/bench/bench_table.h"
#include "apps/report/console.h"
#include "apps/training/program.h"
#include "core/error.h"
#include "dist/ddp/replica_check.h"

namespace brigade::apps {

namespace {

/// Elements that came out wrong, anywhere.
std::int64_t count_wrong(const std::vector<BenchResult>& results) {
  std::int64_t wrong = 0;
  for (const BenchResult& result : results) {
    for (const BenchRow& row : result.rows) {
      wrong += row.wrong_out_of_place.value_or(0) + row.wrong_in_place.value_or(0);
    }
  }
  return wrong;
}

void print(const Console& console, const std::vector<BenchResult>& results,
           const BenchOptions& options, const dist::RankInfo& ranks) {
  console.line(concat("# ", ranks.size, " ranks on ", ranks.hosts, " host(s); medians of ",
                      options.iterations, ", the slowest rank's; out-of-place copies first; ",
                      "comm thread: its processor time while its rank computes"));
  for (const BenchResult& result : results) {
    console.line("\n" + bench_table(result, options, ranks.size));
  }
  console.line(bench_ratios(results, options) + deterministic_cost(results, options));
}

int bench(const BenchOptions& options, const dist::RankInfo& ranks) {
  const Console console(ranks.rank == 0, options.json ? Console::Target::err : Console::Target::out,
                        "never");
  const auto control = dist::make_communicator("mpi", kCpu);
  dist::check_same_lines("flags", options.agreement(), *control);
  std::string note;
  const Device device = dist::choose_device(options.device, ranks, *control, note);
  if (!note.empty()) {
    console.warn(note);
  }
  const std::vector<BenchResult> results =
      race(make_contestants(options, device, ranks, *control), options, *control);
  if (options.json) {
    console.result(bench_json(results, options, ranks.size));
  } else {
    print(console, results, options, ranks);
  }
  if (const std::int64_t wrong = count_wrong(results); wrong > 0) {
    throw VerificationError(
        concat("bench_all_reduce: ", wrong, " elements are wrong; see the columns #wrong"));
  }
  return 0;
}

int run(int argc, const char* const* argv) {
  const BenchParse parsed = parse_bench_options(argc, argv);
  if (parsed.exit) {
    return leave_early(parsed.exit->text, parsed.exit->exit_code);
  }
  return dist::run_main(
      [&](const dist::MpiSession& session) { return bench(parsed.options, session.info()); });
}

}  // namespace

}  // namespace brigade::apps

int main(int argc, char** argv) {
  return brigade::apps::run(argc, argv);
}
