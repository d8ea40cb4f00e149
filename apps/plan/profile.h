#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/plan/planned_step.h"
#include "dist/planning/link_times.h"

namespace brigade::apps {

struct ProfiledParameter {
  std::string name;
  std::size_t bytes = 0;  ///< of its slice of a bucket, padding included
  std::vector<std::int64_t> shape;
};

/// Measurements of one run, as profile.json stores them, beside summary.json.
struct Profile {
  std::string model;  ///< for people
  std::string mode;   ///< of the run: where it overlaps, communication has slowed computation down
  std::string comm;   ///< for people: what carried the all-reduces
  int ranks = 1;
  std::int64_t batch = 0;    ///< samples per rank and micro-batch
  bool shares_core = false;  ///< collectives take their cpu_ms from the core that computes (CPU)
  ComputeTimes compute;
  /// Standard deviation of the logarithm of a rank's time of computation, from step to step.
  double spread = 0.0;
  std::vector<ProfiledParameter> parameters = {};
  std::vector<dist::LinkPoint> all_reduce = {};  ///< measured on `ranks`; none on one rank
  double head_start = 0.0;                       ///< likewise, ms (LinkTimes)
};

std::string profile_json(const Profile& profile);

/// UsageError with the reason for a file that is no profile.
Profile read_profile(const std::filesystem::path& file);

}  // namespace brigade::apps
