#include "apps/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/flags/hook_flag.h"
#include "apps/plan/all_reduce_cost.h"
#include "core/error.h"
#include "dist/ddp/bucket_plan.h"

namespace brigade::apps {

namespace {

constexpr double kMiBytes = 0x1p20;

/// The number after '=' in a hook's text; 0 if there is none.
double argument_of(const std::string& hook) {
  const std::size_t at = hook.find('=');
  return at == std::string::npos ? 0.0 : std::stod(hook.substr(at + 1));
}

/// The bytes of the plain all-reduce that sends as many (NUMBERS.md, "Bytes on the wire"). Hooks
/// exchange directly with all ranks, which costs what a ring does.
double wire_bytes(const ProfiledParameter& parameter, const std::string& hook, int ranks) {
  const auto bytes = static_cast<double>(parameter.bytes);
  if (hook == "fp16" || hook == "bf16") {
    return bytes / 2.0;
  }
  if (hook.starts_with("topk")) {
    return bytes * argument_of(hook) * ranks;
  }
  if (hook.starts_with("powersgd") && parameter.shape.size() == 2) {
    const auto edges = static_cast<double>(parameter.shape[0] + parameter.shape[1]);
    return std::min(bytes, sizeof(float) * edges * argument_of(hook));
  }
  return bytes;
}

class Planner {
 public:
  Planner(const Profile& profile, const PlanQuestion& question)
      : profile_(profile), question_(question), training_(question.training) {
    for (const ProfiledParameter& parameter : profile.parameters) {
      parameters_.push_back({.name = parameter.name, .bytes = parameter.bytes});
    }
    if (question.link) {
      cluster_.between_hosts = message_cost(*question.link);
    } else if (!network().all_reduce.empty()) {
      cluster_.between_hosts = message_cost(dist::LinkTimes(network().all_reduce), network().ranks);
    } else {
      throw UsageError(
          "--link: expected US,GB/S or the profile of a run on several ranks: one rank measures no "
          "network");
    }
    cluster_.inside_host =
        question.local_link ? message_cost(*question.local_link) : cluster_.between_hosts;
    cluster_.ranks_per_host = question.ranks_per_host;
  }

  PlanRow row(int ranks) const {
    const auto accum = static_cast<double>(training_.accum);
    const double samples = training_.global_batch == 0
                               ? static_cast<double>(profile_.batch) * accum * ranks
                               : static_cast<double>(training_.global_batch);
    // Of the rank that has most of them.
    const double larger =
        std::ceil(samples / (accum * ranks)) / static_cast<double>(profile_.batch);
    const double spread = question_.spread.value_or(profile_.spread);
    const double slower = std::exp(spread * expected_largest(ranks));
    const ComputeTimes usual = scaled(larger, ranks);
    const ComputeTimes slowest = scaled(larger * slower, ranks);
    const std::vector<PlannedBucket> buckets = planned_buckets(slowest, ranks);
    const double step = planned_step(slowest, buckets, schedule());
    const auto computes = [accum](const ComputeTimes& times) {
      return accum * (times.forward + times.backward) + times.optimizer;
    };
    return {.ranks = ranks,
            .step = step,
            .compute = computes(usual),
            .slowest = computes(slowest) - computes(usual),
            .exposed = std::max(step - computes(slowest), 0.0),
            .samples_per_second = 1e3 * samples / step,
            .buckets = buckets.size()};
  }

 private:
  const Profile& network() const { return question_.network ? *question_.network : profile_; }

  ComputeTimes scaled(double factor, int ranks) const {
    ComputeTimes times = profile_.compute;
    times.optimizer /= training_.shard_optimizer ? ranks : 1;
    times.forward *= factor;
    times.backward *= factor;
    for (dist::GradientReady& gradient : times.order) {
      gradient.ms *= factor;
    }
    return times;
  }

  Schedule schedule() const {
    return {.overlap = training_.mode != "naive" && training_.mode != "flat",
            .one_by_one = training_.mode == "naive",
            .sharded = training_.shard_optimizer,
            .cross_step = training_.cross_step,
            .accum = static_cast<std::size_t>(training_.accum),
            .defer_sync = training_.mode == "no_sync",
            .shares_core = profile_.shares_core,
            .head_start = question_.link ? 0.0 : network().head_start};
  }

  CollectiveCost cost(double bytes, int ranks) const {
    CollectiveCost cost = all_reduce_cost(cluster_, question_.algorithm, ranks, bytes);
    cost.latency_ms = all_reduce_cost(cluster_, question_.algorithm, ranks, 0.0).ms;
    const double part = training_.shard_optimizer ? 0.5 : 1.0;  // reduce-scatter, later all-gather
    return {part * cost.ms, part * cost.cpu_ms, part * cost.latency_ms};
  }

  dist::BucketPlan bucket_plan(const ComputeTimes& times, int ranks) const {
    if (training_.choose_buckets) {
      return dist::best_buckets(
          parameters_, times.order,
          [&](std::size_t bytes) { return cost(static_cast<double>(bytes), ranks).ms; },
          /*tolerance=*/0.01);
    }
    std::vector<std::size_t> order;
    for (const dist::GradientReady& gradient : times.order) {
      order.push_back(gradient.parameter);
    }
    const bool alone = training_.mode == "naive" || training_.mode == "per_param";
    const double cap = alone ? 0.0 : training_.bucket_mb * kMiBytes;
    return dist::assign_buckets(parameters_, order, static_cast<std::size_t>(cap));
  }

  std::vector<PlannedBucket> planned_buckets(const ComputeTimes& times, int ranks) const {
    std::vector<PlannedBucket> buckets;
    for (const std::vector<std::size_t>& members : bucket_plan(times, ranks)) {
      double bytes = 0.0;
      for (const std::size_t member : members) {
        bytes += wire_bytes(profile_.parameters[member], training_.comm_hook, ranks);
      }
      const bool cut = training_.cross_step && training_.comm_hook == "none";
      const double chunks = training_.comm_hook.starts_with("powersgd") ? 2.0  // P, then Q
                            : cut ? std::max(1.0, std::ceil(bytes / kMiBytes))
                                  : 1.0;
      buckets.push_back(
          {members, std::vector(static_cast<std::size_t>(chunks), cost(bytes / chunks, ranks))});
    }
    return buckets;
  }

  const Profile& profile_;
  const PlanQuestion& question_;
  const Options& training_;
  std::vector<dist::PlanParameter> parameters_;
  Cluster cluster_;
};

void check(const PlanQuestion& question) {
  const Options& training = question.training;
  make_comm_hook(training.comm_hook);
  if (training.comm_hook != "none" && question.algorithm != "ring") {
    throw UsageError(
        fmt::format("--comm-hook: expected --algorithm ring, got {}: hooks have algorithms of "
                    "their own, which cost what a ring does",
                    question.algorithm));
  }
  if (training.shard_optimizer && (question.algorithm != "ring" || question.ranks_per_host > 1)) {
    throw UsageError(
        fmt::format("--shard-optimizer: expected --algorithm ring and one rank per host, got {} "
                    "and {}: shares travel from every rank to every other",
                    question.algorithm, question.ranks_per_host));
  }
  const bool knows_hosts = question.algorithm == "ring" || question.algorithm == "hierarchical";
  if (question.ranks_per_host > 1 && !knows_hosts) {
    throw UsageError(fmt::format(
        "--ranks-per-host: expected --algorithm ring or hierarchical, got {}", question.algorithm));
  }
  if (question.local_link && question.ranks_per_host == 1) {
    throw UsageError("--local-link: expected --ranks-per-host of more than 1");
  }
}

}  // namespace

std::vector<PlanRow> plan(const Profile& profile, const PlanQuestion& question) {
  check(question);
  const Options& training = question.training;
  const Planner planner(profile, question);
  std::vector<PlanRow> rows;
  for (const int ranks : question.ranks) {
    if (training.global_batch == 0 || training.global_batch >= ranks * training.accum) {
      rows.push_back(planner.row(ranks));
    }
  }
  if (rows.empty()) {
    throw UsageError(
        fmt::format("--global-batch: expected at least {} (a sample per rank and micro-batch, "
                    "ranks x --accum), got {}",
                    question.ranks.front() * training.accum, training.global_batch));
  }
  return rows;
}

std::vector<std::string> verdicts(const std::vector<PlanRow>& rows) {
  constexpr double kHalf = 0.5;
  std::vector<std::string> lines;
  const auto lost =
      std::ranges::find_if(rows, [](const PlanRow& row) { return row.efficiency() < kHalf; });
  if (lost == rows.end()) {
    const auto worst = std::ranges::min(rows, {}, &PlanRow::efficiency);
    lines.push_back(fmt::format("at least {:.0f} % of every rank's time computes (on {} ranks)",
                                1e2 * worst.efficiency(), worst.ranks));
  } else {
    const bool network = lost->exposed > lost->slowest;
    lines.push_back(fmt::format(
        "from {} ranks on, less than half of the ranks' time computes: they wait for {}; {}",
        lost->ranks, network ? "the network" : "the slowest rank",
        network ? "a larger --batch, --accum with no_sync, or a --comm-hook would help"
                : "look for what disturbs them"));
  }
  const auto fastest = std::ranges::max_element(rows, {}, &PlanRow::samples_per_second);
  if (fastest + 1 != rows.end()) {
    lines.push_back(
        fmt::format("more than {} ranks process no more samples per second", fastest->ranks));
  }
  return lines;
}

double expected_largest(int count) {
  constexpr double kSqrt2 = 1.4142135623730951;
  const double share = (count - 0.375) / (count + 0.25);
  double low = 0.0;
  double high = 10.0;
  for (int i = 0; i < 60; ++i) {  // Φ grows, so halving finds where it is `share`
    const double middle = (low + high) / 2.0;
    (0.5 * std::erfc(-middle / kSqrt2) < share ? low : high) = middle;
  }
  return low;
}

}  // namespace brigade::apps
