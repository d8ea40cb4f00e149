#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "apps/report/console.h"
#include "apps/report/summary.h"
#include "apps/training/run_info.h"
#include "autograd/variable.h"
#include "dist/comm/communicator.h"

namespace brigade::apps {

/// The files of one run of train_mlp: written by rank 0, on the others there are none.
class RunFiles {
 public:
  /// Makes the directory, checks that every file can be written before any time is spent, and
  /// removes those of an earlier run: beside the metrics of a run that fails there is no other
  /// run's summary. UsageError for a place that cannot become a file. Collective.
  RunFiles(const Options& options, dist::Communicator& comm);

  /// Null on other ranks.
  MetricsFile* metrics() { return metrics_ ? &*metrics_ : nullptr; }

  /// Writes weights, summary and time lines, and prints how the run went. The weights only if all
  /// ranks have the same. A file that cannot be written costs no other; the first Error is thrown
  /// at the end.
  void write_results(const Console& console, const RunInfo& info, const RunResult& result,
                     const std::vector<autograd::Variable>& parameters) const;

 private:
  std::filesystem::path directory_;
  std::optional<MetricsFile> metrics_;
};

}  // namespace brigade::apps
