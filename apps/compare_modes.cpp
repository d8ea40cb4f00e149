// compare_modes: times the synchronisation modes against each other, on the same work.
#include <cmath>

#include "apps/chrome_trace.h"
#include "apps/comparison.h"
#include "apps/comparison_page.h"
#include "apps/comparison_report.h"
#include "apps/console.h"
#include "apps/program.h"
#include "core/cpu/threads.h"
#include "core/error.h"
#include "core/serialize.h"

namespace brigade::apps {

namespace {

ComparisonInfo describe(const Options& options, const dist::RankInfo& ranks, const Workplace& place,
                        const DataSplits& data) {
  ComparisonInfo info;
  info.options = options;
  info.ranks = ranks;
  info.device = place.device;
  info.comm = place.comm->description();
  info.libraries = libraries_of(options, place.device);
  info.shape = shape_of(options, *data.train);
  info.parameters = count_elements(make_mlp(info.shape, options.seed, kCpu)->parameters());
  info.threads = threads_of(options, ranks);
  return info;
}

/// Only rank 0 calls it.
void write_results(const Console& console, const ComparisonInfo& info, const Comparison& result,
                   const std::filesystem::path& directory) {
  const std::string json = comparison_json(info, result);
  write_file_atomically(directory / "compare.json", json);
  write_file_atomically(directory / "compare.html", comparison_html(info, result));
  if (info.options.trace) {
    for (const ModeResult& mode : result.modes) {
      write_chrome_trace(directory / concat("trace-", mode.mode, ".json.gz"), mode.trace);
    }
    write_chrome_trace(directory / "trace-none.json.gz", result.ideal.trace);
  }
  console.line();
  console.line(
      concat("wrote compare.html, compare.json",
             info.options.trace ? " and a trace-MODE.json.gz per mode, trace-none without one" : "",
             " in ", directory.string(), "; clocks are aligned to ",
             std::ceil(1e3 * clock_error_ms(result.modes.front().trace)), " us"));
  if (info.options.json) {
    console.result(json);
  }
}

int compare(const Options& options, const dist::RankInfo& ranks) {
  const Console console(ranks.rank == 0, options.json ? Console::Target::err : Console::Target::out,
                        options.color);
  set_cpu_threads(static_cast<int>(threads_of(options, ranks)));
  const Workplace place = find_workplace(options, ranks, console);
  dist::Communicator& comm = *place.comm;
  const DataSplits data = load_data(options, options.batch * options.accum * comm.size());
  check_same_data(data, comm);
  const ComparisonInfo info = describe(options, ranks, place, data);
  print_comparison_start(console, info);
  const std::filesystem::path directory = agree_on_directory(options, comm);
  if (comm.rank() == 0) {
    check_output_files({directory / "compare.html", directory / "compare.json"});
  }
  const Comparison result = compare_modes(options, ranks, place, data);
  if (comm.rank() == 0) {
    print_comparison(console, info, result);
    write_results(console, info, result, directory);
  }
  comm.barrier();  // nobody ends the job while rank 0 still writes
  if (!result.equal) {
    throw VerificationError(
        "compare_modes: the weights are not equal; see the line NOT EQUAL above");
  }
  return 0;
}

}  // namespace

}  // namespace brigade::apps

int main(int argc, char** argv) {
  return brigade::apps::run_program(argc, argv, brigade::apps::Program::compare_modes,
                                    brigade::apps::compare);
}
