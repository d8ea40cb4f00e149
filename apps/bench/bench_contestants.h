#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/bench_options.h"
#include "apps/bench/bench_table.h"
#include "dist/comm/communicator.h"
#include "dist/launch/launch.h"

namespace brigade::apps {

/// One way to all-reduce, and the memory to try it on.
class Contestant {
 public:
  /// Collective. `comm` and `reduce` as the flags name them; buffers for sizes up to the largest.
  Contestant(const std::string& comm, const std::string& reduce, const BenchOptions& options,
             Device device);

  const std::string& name() const { return name_; }
  std::string description() const { return comm_->description(); }

  /// Seconds that this rank took, from a barrier to its own end.
  double time_out_of_place(std::size_t bytes);
  double time_in_place(std::size_t bytes);

  /// What the communication thread did while this rank's own thread slept, as if it computed, and
  /// how long that took. Nothing on a GPU.
  struct ThreadUse {
    double cpu_seconds = 0.0;
    double seconds = 0.0;
  };
  std::optional<ThreadUse> use_of_thread(std::size_t bytes);

  /// Elements that this rank has wrong after one all-reduce of known numbers.
  std::int64_t count_wrong_out_of_place(std::size_t bytes);
  std::int64_t count_wrong_in_place(std::size_t bytes);

 private:
  template <class Work>
  double timed(Work work);
  Tensor view(const Tensor& tensor, std::size_t bytes) const;
  Tensor known_numbers(std::size_t bytes) const;

  std::string name_;
  std::unique_ptr<dist::Communicator> comm_;
  Device device_;
  Tensor source_;  // out of place: what is summed
  Tensor result_;  // where the sum ends up
  std::optional<clockid_t> thread_clock_;
};

/// Elements of `sums` that are not what the known numbers of `ranks` ranks add up to.
std::int64_t count_wrong_sums(const Tensor& sums, int ranks);

/// Those asked for, or all that work on this device and these hosts. Collective.
std::vector<std::unique_ptr<Contestant>> make_contestants(const BenchOptions& options,
                                                          Device device,
                                                          const dist::RankInfo& ranks,
                                                          dist::Communicator& control);

/// All contestants on all sizes. They take turns in every iteration, so that whatever else goes on
/// on the machine hits all alike. Collective; every rank gets the same result.
std::vector<BenchResult> race(const std::vector<std::unique_ptr<Contestant>>& contestants,
                              const BenchOptions& options, dist::Communicator& control);

}  // namespace brigade::apps
