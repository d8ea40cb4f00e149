// compare_modes: times the synchronisation modes against each other, on the same work.
#include <fmt/format.h>

#include "apps/compare/comparison.h"
#include "apps/compare/comparison_page.h"
#include "apps/compare/comparison_report.h"
#include "apps/report/chrome_trace.h"
#include "apps/report/console.h"
#include "apps/training/link_choice.h"
#include "apps/training/output_files.h"
#include "apps/training/program.h"
#include "apps/training/setup.h"
#include "core/error.h"

namespace brigade::apps {

namespace {

/// Only rank 0 calls it.
void write_results(const Console& console, const RunInfo& info, const Comparison& result,
                   const std::filesystem::path& directory) {
  const std::string json = comparison_json(info, result);
  OutputFiles files;
  files.write(directory / "compare.html", comparison_html(info, result));
  files.write(directory / "compare.json", json);
  if (info.options.trace) {
    const auto write_trace = [&](const std::string& mode, const RunTrace& trace) {
      const std::filesystem::path file = directory / fmt::format("trace-{}.json.gz", mode);
      files.write(file, [&] { write_chrome_trace(file, trace); });
    };
    for (const ModeResult& mode : result.modes) {
      write_trace(mode.mode, mode.trace);
    }
    write_trace("none", result.ideal.trace);
  }
  console.line();
  console.line(fmt::format("wrote {}; {}", fmt::join(files.written(), ", "),
                           clocks_text(result.modes.front().trace)));
  if (info.options.json) {
    files.write("stdout", [&] { console.result(json); });
  }
  files.check();
}

int compare(Options options, const dist::RankInfo& ranks) {
  const Console console = make_console(options, ranks);
  set_threads(options, ranks);
  Runtime runtime = find_runtime(options, ranks, console);
  const std::int64_t global_batch = options.batch * options.accum * ranks.size;
  const data::DataSplits data = load_data(options, global_batch);
  check_same_data(data, *runtime.comm);
  if (data.train->size() < global_batch) {  // "(none)" would have more of them in a step
    throw UsageError(
        fmt::format("compare_modes: expected at least as many training samples as a global batch "
                    "has, {} (--batch x --accum x ranks), got {}; lower --batch or --accum",
                    global_batch, data.train->size()));
  }
  emulate_link(options, *data.train, runtime, console);
  dist::Communicator& comm = *runtime.comm;
  RunInfo info = describe_setting(options, ranks, data, runtime);
  // Refuses other weights in --init before anything is written.
  info.parameters =
      count_elements(make_model(options, *data.train, options.seed, kCpu)->parameters());
  print_comparison_start(console, info);
  const std::filesystem::path directory = agree_on_directory(options, comm);
  if (comm.rank() == 0) {
    check_output_files({directory / "compare.html", directory / "compare.json"});
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();  // of an earlier comparison
      const bool trace = name.starts_with("trace-") && name.ends_with(".json.gz");
      if (entry.is_regular_file() && (trace || name == "compare.html" || name == "compare.json")) {
        std::filesystem::remove(entry.path());
      }
    }
    write_config(options, directory);
  }
  const Comparison result = compare_modes(info, runtime, data);
  if (comm.rank() == 0) {
    print_comparison(console, info, result);
    write_results(console, info, result, directory);
  }
  comm.barrier();  // nobody ends the job while rank 0 still writes
  if (!result.equal) {
    throw VerificationError(
        "compare_modes: the weights are not equal; see the line NOT EQUAL above. Rounding "
        "grows with the steps: compare with --steps 10");
  }
  return 0;
}

}  // namespace

}  // namespace brigade::apps

int main(int argc, char** argv) {
  return brigade::apps::run_program(argc, argv, brigade::apps::Program::compare_modes,
                                    brigade::apps::compare);
}
