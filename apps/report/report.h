#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/report/console.h"
#include "apps/training/run_info.h"
#include "dist/planning/bucket_tuner.h"

/// What a person sees.
namespace brigade::apps {

/// "data      fashion-mnist": the name padded to the width of all names.
std::string setting_row(const char* name, const std::string& text);

/// The rows that all programs begin with: ranks, device, comm, model, batch.
std::vector<std::string> setting_lines(const RunInfo& info);

/// What runs where, on what, and how the gradients will travel.
void print_first_screen(const Console& console, const RunInfo& info);

/// What --bucket-mb auto has found after `step`.
void print_chosen_buckets(const Console& console, const std::vector<BucketInfo>& buckets,
                          const dist::BucketChoice& choice, std::int64_t step);

/// Says that the buckets were rebuilt. Lists them if one holds other parameters than in `before`,
/// the buckets of the first screen.
void print_rebuilt_buckets(const Console& console, const std::vector<BucketInfo>& before,
                           const std::vector<BucketInfo>& buckets);

void print_progress(const Console& console, const RunInfo& info, const Progress& progress);

void print_evaluation(const Console& console, const RunInfo& info, std::int64_t step,
                      const Evaluation& evaluation);

/// The outcome and where the time went; `files` are those written.
void print_result(const Console& console, const RunInfo& info, const RunResult& result,
                  const std::vector<std::string>& files);

}  // namespace brigade::apps
