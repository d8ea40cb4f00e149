#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/bench_options.h"

namespace brigade::apps {

/// One way to all-reduce, one size: medians over the iterations of the slowest rank's time.
struct BenchRow {
  std::size_t bytes = 0;
  double out_of_place_us = 0.0;  ///< copy into the bucket, then all-reduce there
  double in_place_us = 0.0;
  std::optional<std::int64_t> wrong_out_of_place;  ///< elements, on all ranks; empty: not checked
  std::optional<std::int64_t> wrong_in_place;
  std::optional<double> cpu_ms;    ///< of the communication thread while nobody waits for it
  std::optional<double> cpu_core;  ///< the same as a part of one core, 0 ... 1
};

struct BenchResult {
  std::string name;         ///< "ring", "ring deterministic"
  std::string description;  ///< of the communicator
  std::vector<BenchRow> rows;
};

/// Algorithm bandwidth, bytes / time, in GB/s (10⁹), and bus bandwidth, that times 2 (N-1)/N: what
/// each link must have carried, comparable between numbers of ranks (nccl-tests, PERFORMANCE.md).
double algbw(std::size_t bytes, double us);
double busbw(std::size_t bytes, double us, int ranks);

/// One table as nccl-tests prints it, with the fit below.
std::string bench_table(const BenchResult& result, const BenchOptions& options, int ranks);

/// In-place times as multiples of the first result's: one line per size. Empty for one result.
std::string bench_ratios(const std::vector<BenchResult>& results, const BenchOptions& options);

/// What rank-order sums cost: one line per --comm that ran both ways, the geometric mean over the
/// sizes of deterministic / fast. Empty if none did.
std::string deterministic_cost(const std::vector<BenchResult>& results,
                               const BenchOptions& options);

/// Everything, for programs.
std::string bench_json(const std::vector<BenchResult>& results, const BenchOptions& options,
                       int ranks);

}  // namespace brigade::apps
