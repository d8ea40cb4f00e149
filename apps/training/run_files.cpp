#include "apps/training/run_files.h"

#include <limits>

#include "apps/report/chrome_trace.h"
#include "apps/report/graph.h"
#include "apps/report/report.h"
#include "apps/report/timeline.h"
#include "apps/training/output_files.h"
#include "core/runtime/trace.h"
#include "nn/gpt2_files.h"
#include "nn/weights.h"

namespace brigade::apps {

namespace {

constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kSummary = "summary.json";
constexpr const char* kProfile = "profile.json";
constexpr const char* kTrace = "trace.json.gz";
constexpr const char* kTimeline = "timeline.html";

}  // namespace

RunFiles::RunFiles(const Options& options, dist::Communicator& comm) {
  const ScopeName scope(kWritesFiles);
  const bool first = comm.rank() == 0;
  if (first && options.out.empty() && !options.save.empty()) {
    check_output_files({options.save});  // before there is a runs/<n> for nothing
  }
  directory_ = agree_on_directory(options, comm);
  if (!first) {
    return;
  }
  std::vector<std::filesystem::path> files{directory_ / kConfig, directory_ / kMetrics,
                                           directory_ / kSummary, directory_ / kProfile};
  if (options.trace) {
    files.insert(files.end(), {directory_ / kTrace, directory_ / kTimeline});
  }
  for (const std::string& file : {options.save, options.graph}) {
    if (!file.empty()) {
      files.emplace_back(file);
    }
  }
  if (options.model == "gpt" && !options.save.empty()) {
    files.push_back(nn::gpt2_config_of(options.save));
    if (nn::has_gpt2_config(options.save)) {
      nn::load_gpt2_options(options.save, {});  // refuses to replace another model's
    }
  }
  check_output_files(files);
  writes_ = true;
}

void RunFiles::begin(const Options& options, std::int64_t first_step) {
  if (!writes_) {
    return;
  }
  const std::string before = metrics_until(directory_ / kMetrics, first_step);
  for (const char* name : {kMetrics, kSummary, kProfile, kTrace, kTimeline, kStall}) {
    std::error_code ignored;  // it can be written, so it will be replaced; or there is none
    std::filesystem::remove(directory_ / name, ignored);
  }
  metrics_.emplace(directory_ / kMetrics, before);
  write_config(options, directory_);
}

void RunFiles::write_results(const Console& console, const RunInfo& info, const RunResult& result,
                             const std::vector<autograd::Variable>& parameters) const {
  if (!metrics_) {
    return;
  }
  const ScopeName scope(kWritesFiles);
  const Options& options = info.options;
  const std::string summary = summary_json(info, result);
  OutputFiles files;
  if (!options.save.empty() && result.weights.equal) {  // else: whose weights would they be?
    files.write(options.save, [&] {
      if (const std::optional<nn::GPTOptions>& gpt = info.shape.gpt) {
        nn::save_gpt2(parameters, *gpt, options.save);
        files.note(nn::gpt2_config_of(options.save));
      } else {
        nn::save_parameters(parameters, options.save);
      }
    });
  }
  files.write(directory_ / kMetrics, [&] { metrics_->check(); });
  files.write(directory_ / kSummary, summary);
  if (result.profile) {
    files.write(directory_ / kProfile, profile_json(*result.profile));
  }
  if (!options.graph.empty()) {
    files.write(options.graph, result.graph);
    if (const auto picture = draw_graph(options.graph)) {
      files.note(*picture);
    }
  }
  if (options.trace) {
    files.write(directory_ / kTrace,
                [&] { write_chrome_trace(directory_ / kTrace, result.trace); });
    const std::string metrics =
        metrics_until(directory_ / kMetrics, std::numeric_limits<std::int64_t>::max());
    files.write(directory_ / kTimeline,
                timeline_html(program_name(options), {result.trace}, metrics));
  }
  print_result(console, info, result, files.written());
  if (options.json) {
    files.write("stdout", [&] { console.result(summary); });
  }
  files.check();
}

}  // namespace brigade::apps
