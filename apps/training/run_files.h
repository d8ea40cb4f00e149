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

inline constexpr const char* kStall = "stall.json";  // dist/watch writes it

/// The files of one run of train_mlp: written by rank 0, on the others there are none.
class RunFiles {
 public:
  /// Makes the directory and checks that every file can be written before any time is spent.
  /// UsageError for a place that cannot become a file. Collective.
  RunFiles(const Options& options, dist::Communicator& comm);

  /// The run starts. Removes the files of an earlier one: beside the metrics of a run that fails
  /// there is no other run's summary. A run that continues another (`first_step` > 0) keeps the
  /// metrics of the steps before.
  void begin(const Options& options, std::int64_t first_step);

  const std::filesystem::path& directory() const { return directory_; }

  /// Null on other ranks.
  MetricsFile* metrics() { return metrics_ ? &*metrics_ : nullptr; }

  /// Writes weights, summary and time lines, and prints how the run went. The weights only if all
  /// ranks have the same. A file that cannot be written costs no other; the first Error is thrown
  /// at the end.
  void write_results(const Console& console, const RunInfo& info, const RunResult& result,
                     const std::vector<autograd::Variable>& parameters) const;

 private:
  std::filesystem::path directory_;
  bool writes_ = false;  // this is rank 0
  std::optional<MetricsFile> metrics_;
};

}  // namespace brigade::apps
