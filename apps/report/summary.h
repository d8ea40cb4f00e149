#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "apps/metrics/figure.h"
#include "apps/training/run_info.h"

/// The numbers of a run: for programs in summary.json and metrics.jsonl, for people on the screen
/// (report.h). NUMBERS.md says how each is computed.
namespace brigade::apps {

/// " (emulated link)" behind times that an emulated link is part of, else "".
const char* emulated_text(const Options& options);
/// What ran where, on what, with which flags. Does not read the steps, buckets and rates.
Figures setting_figures(const RunInfo& info);

/// How a run ended and what it cost. The figures with a place are the last screen's lines.
Figures figures_of(const RunInfo& info, const RunResult& result);

/// What a test found, with one place for all of it.
Figures figures_of(const Evaluation& test, const std::string& place);

/// One record of metrics.jsonl, whose figures with a place are the progress line.
Figures figures_of(const RunInfo& info, const Progress& progress);

/// The summary as indented JSON text, newline included.
std::string summary_json(const RunInfo& info, const RunResult& result);

/// Appends records to metrics.jsonl, one line each. Writes only whole lines, and none after a line
/// that could not be written.
class MetricsFile {
 public:
  /// Begins with the lines in `before`.
  MetricsFile(const std::filesystem::path& path, const std::string& before);

  /// False for the first line that cannot be written.
  bool write(const RunInfo& info, const Progress& progress,
             const std::optional<Evaluation>& evaluation);
  /// Throws an Error if a line is missing.
  void check() const;

 private:
  std::filesystem::path path_;
  std::ofstream file_;
  std::uintmax_t complete_ = 0;  // bytes of whole lines
};

/// The lines of a MetricsFile for the steps up to `step`; empty if there is no such file.
std::string metrics_until(const std::filesystem::path& path, std::int64_t step);

}  // namespace brigade::apps
