#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench/bench_options.h"

namespace brigade::apps {

/// One size.
struct BenchRow {
  std::size_t bytes = 0;
  double us = 0.0;         ///< median over the iterations of the slowest rank's time
  std::int64_t wrong = 0;  ///< wrong elements of the last run, on all ranks
};

/// One value of --comm.
struct BenchResult {
  std::string name;         ///< the value: "ring"
  std::string description;  ///< the communicator's
  std::vector<BenchRow> rows;
};

/// Algorithm bandwidth in GB/s (10⁹ bytes): bytes / time.
double algbw(std::size_t bytes, double us);
/// Bus bandwidth in GB/s: algbw · 2 (N-1)/N, the traffic of each link. It is comparable between
/// numbers of ranks (nccl-tests, doc/PERFORMANCE.md).
double busbw(std::size_t bytes, double us, int ranks);

/// A table with the in-place columns of nccl-tests, and the fit of alpha_beta.h.
std::string bench_table(const BenchResult& result, int ranks);

/// The same results as JSON.
std::string bench_json(const std::vector<BenchResult>& results, const BenchOptions& options,
                       int ranks);

}  // namespace brigade::apps
