#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "apps/flags/options.h"
#include "apps/metrics/memory_use.h"
#include "apps/report/console.h"
#include "dist/comm/communicator.h"
#include "dist/elastic/survivors.h"
#include "dist/launch/launch.h"

namespace brigade::apps {

/// Ranks that are gone, as numbered by mpirun.
struct Loss {
  std::vector<int> ranks;
  std::string why;  ///< what the watch has found out
  std::chrono::steady_clock::time_point noticed;
};

/// Where this rank computes and with whom.
struct Runtime {
  Device device;
  std::unique_ptr<dist::Communicator> comm;
  dist::Survivors* survivors = nullptr;  ///< with --on-failure shrink
  int lost = 0;                          ///< ranks, since the start
  bool can_watch = true;                 ///< false: the Watch before the training did not work
  double flops_per_s = 0.0;              ///< product_rate() of one rank; 0: not measured
  Loss loss = {};                        ///< the last one
};

/// Compares the ranks' flags, chooses the device and connects the ranks. Collective.
Runtime find_runtime(const Options& options, const dist::RankInfo& ranks, const Console& console);

/// `request`: as --device. Rank 0 warns if `auto` finds no GPU that it can use. Collective.
Device find_device(const std::string& request, const dist::RankInfo& ranks,
                   dist::Communicator& control, const Console& console);

/// With --reduce deterministic: makes `comm` add in the order of the ranks.
void choose_sum(const Options& options, dist::Communicator& comm);

/// As many threads as --threads says, or as many as this rank has cores. UsageError for more than
/// the library is built for.
void set_threads(const Options& options, const dist::RankInfo& ranks);

/// Floating point operations per second of a product of two 1024 x 1024 matrices of this dtype, at
/// this thread's MatmulPrecision.
double product_rate(Device device, DType factors);

/// Memory is counted from here: the training's is without what made the data, and without the code
/// that libraries load when they are first used, hence one step of a tiny network.
ResidentPeak count_memory(Device device);

}  // namespace brigade::apps
