#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "apps/training/run_info.h"

/// What programs read: summary.json and metrics.jsonl. Keys are explained in NUMBERS.md.
namespace brigade::apps {

/// The summary as indented JSON text, newline included.
std::string summary_json(const RunInfo& info, const RunResult& result);

/// Appends records to metrics.jsonl, one line each, complete once written. Behind a line that
/// cannot be written there are no others.
class MetricsFile {
 public:
  explicit MetricsFile(const std::filesystem::path& path);

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

/// Makes the directory for a run's files: `requested`, or the first free runs/<n>. UsageError with
/// the reason.
std::filesystem::path make_run_directory(const std::string& requested);

}  // namespace brigade::apps
