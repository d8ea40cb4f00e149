#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/bench/bench_options.h"
#include "apps/bench/bench_table.h"
#include "dist/comm/communicator.h"

namespace brigade::apps {

/// One all-reduce under test: a communicator, an input and a bucket for the largest size.
/// Element i of the input is i mod 251 + rank. The sums are exact in f32 in every order of
/// additions, so a wrong element is an error and not rounding.
class AllReduceCase {
 public:
  /// `name`: as the table shows it. Collective over the ranks of `comm`.
  AllReduceCase(std::string name, std::unique_ptr<dist::Communicator> comm,
                const BenchOptions& options, Device device);

  const std::string& name() const { return name_; }
  std::string description() const { return comm_->description(); }

  /// All-reduces the first `bytes` bytes in place. Returns the seconds from a barrier to the end on
  /// this rank, device included.
  double run(std::size_t bytes);

  /// Elements that the last run() of `bytes` bytes summed wrongly on this rank.
  std::int64_t count_wrong(std::size_t bytes) const;

 private:
  std::string name_;
  std::unique_ptr<dist::Communicator> comm_;
  Device device_;
  Tensor input_;   // [max_bytes / sizeof(float)]
  Tensor bucket_;  // the same shape, allocated by the communicator as for gradients
};

/// Runs all cases on all sizes. Cases alternate run by run, so a disturbance of the machine slows
/// all of them. The time of a run is the slowest rank's; a row has the median over the iterations.
/// Collective over the ranks of `control`; every rank gets the same results.
std::vector<BenchResult> run_alternating(std::vector<AllReduceCase>& cases,
                                         const BenchOptions& options, dist::Communicator& control);

}  // namespace brigade::apps
