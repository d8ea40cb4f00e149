#include "dist/ddp/join.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace brigade::dist {

Join::Join(Communicator& comm, Weighting weighting, std::function<void(const std::string&)> warn)
    : comm_(comm), weighting_(weighting), warn_(std::move(warn)) {
  if (!warn_) {
    // One call with the whole line, so that lines of several ranks do not mix.
    warn_ = [](const std::string& line) { std::fputs((line + "\n").c_str(), stderr); };
  }
}

JoinStep Join::begin(std::int64_t my_samples) {
  BRIGADE_CHECK(my_samples >= 0, "join: expected a number of samples, got ", my_samples);
  const std::vector<std::int64_t> counts = all_gather_values(comm_, my_samples);
  JoinStep step;
  step.samples = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (my_samples > 0 && weighting_ == Weighting::by_samples) {
    step.seed_per_sample = static_cast<double>(comm_.size()) / static_cast<double>(step.samples);
  }
  if (weighting_ == Weighting::per_rank_mean) {
    warn_if_uneven(counts);
    const auto idle = std::count(counts.begin(), counts.end(), std::int64_t{0});
    const auto active = static_cast<double>(comm_.size() - idle);
    if (my_samples > 0) {
      step.seed_per_sample =
          static_cast<double>(comm_.size()) / (active * static_cast<double>(my_samples));
    }
  }
  return step;
}

void Join::warn_if_uneven(const std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> active;
  std::copy_if(counts.begin(), counts.end(), std::back_inserter(active),
               [](std::int64_t count) { return count > 0; });
  const bool even =
      std::adjacent_find(active.begin(), active.end(), std::not_equal_to<>()) == active.end();
  if (even || warned_ || comm_.rank() != 0) {
    return;
  }
  warned_ = true;
  std::string list;
  for (const std::int64_t count : counts) {
    list += concat(list.empty() ? "" : ", ", count);
  }
  warn_(
      concat("[rank 0] warning: join: the mean of the ranks' means is not the mean over all "
             "samples: ranks 0 to ",
             comm_.size() - 1, " have ", list,
             " samples in this step; weight by samples, or give every rank as many"));
}

}  // namespace brigade::dist
