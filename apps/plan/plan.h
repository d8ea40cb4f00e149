#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/flags/options.h"
#include "apps/plan/profile.h"
#include "dist/comm/emulated_link_communicator.h"

namespace brigade::apps {

/// What to predict; ddp_plan --help explains each.
struct PlanQuestion {
  std::vector<int> ranks{8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};
  /// plan() reads the fields for which ddp_plan has flags. global_batch > 0: strong scaling. 0:
  /// weak scaling, each rank keeps its batch.
  Options training = {};
  std::string algorithm = "ring";
  std::optional<dist::LinkModel> link = {};        // none: as measured
  std::optional<Profile> network = {};             // measured by this run instead
  std::optional<dist::LinkModel> local_link = {};  // none: like `link`
  std::int64_t ranks_per_host = 1;
  std::optional<double> spread = {};  // none: as measured
};

/// The prediction for some number of ranks, in ms.
struct PlanRow {
  int ranks = 1;
  double step = 0.0;
  double compute = 0.0;  ///< of a rank without communication, in a usual step
  double slowest = 0.0;  ///< more than that, until the slowest of the ranks has computed
  double exposed = 0.0;  ///< the rest: communication that is not hidden
  double samples_per_second = 0.0;
  std::size_t buckets = 0;

  /// How much of the ranks' time computes.
  double efficiency() const { return compute / step; }
};

/// A row for each of question.ranks, but for those with less than one sample per rank. UsageError
/// for a question that the profile cannot answer.
std::vector<PlanRow> plan(const Profile& profile, const PlanQuestion& question);

/// Where data parallelism stops paying, in words.
std::vector<std::string> verdicts(const std::vector<PlanRow>& rows);

/// The mean of the largest of `count` standard normal numbers, by Blom's approximation (1958):
/// Φ⁻¹((n - 3/8) / (n + 1/4)). 0 of one.
double expected_largest(int count);

}  // namespace brigade::apps
