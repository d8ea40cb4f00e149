#include "apps/metrics/timing_summary.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "dist/comm/gather.h"

namespace brigade::apps {

namespace {

template <class Record, class Value>
double median_of(std::span<const Record> records, Value value) {
  std::vector<double> values;
  std::ranges::transform(records, std::back_inserter(values), value);
  return quantile(std::move(values), 0.5);
}

/// Medians collective by collective; nothing unless every step has the same ones.
std::vector<CollectiveTimes> median_collectives(std::span<const TimedStep> steps) {
  std::vector<CollectiveTimes> result;
  const bool alike = std::ranges::all_of(steps, [&](const TimedStep& step) {
    return step.collectives.size() == steps.front().collectives.size();
  });
  for (std::size_t i = 0; alike && !steps.empty() && i < steps.front().collectives.size(); ++i) {
    const auto median = [steps, i](double CollectiveTimes::*part) {
      return median_of(steps,
                       [part, i](const TimedStep& step) { return step.collectives[i].*part; });
    };
    result.push_back({median(&CollectiveTimes::ready), median(&CollectiveTimes::begin),
                      median(&CollectiveTimes::end), steps.front().collectives[i].bytes});
  }
  return result;
}

/// One figure of each rank and step.
using RankTimes = std::vector<std::vector<double>>;

std::vector<double> medians_of(const RankTimes& times) {
  std::vector<double> medians;
  std::ranges::transform(times, std::back_inserter(medians),
                         [](const std::vector<double>& rank) { return quantile(rank, 0.5); });
  return medians;
}

std::optional<Straggler> find_straggler(const RankTimes& times, Straggler::Reason reason) {
  constexpr std::size_t kFewestSteps = 4;  // of fewer, a quarter is a matter of chance
  if (times.size() < 2 || times.front().size() < kFewestSteps) {
    return {};
  }
  const std::vector<double> medians = medians_of(times);
  const auto longest = std::max_element(medians.begin(), medians.end());
  std::vector<double> others(medians.begin(), longest);
  others.insert(others.end(), longest + 1, medians.end());
  Straggler result{.rank = static_cast<int>(longest - medians.begin()),
                   .reason = reason,
                   .ms = *longest,
                   .others = quantile(std::move(others), 0.5)};
  const double limit = std::max(1.25 * result.others, result.others + 1.0);
  const std::vector<double>& mine = times[static_cast<std::size_t>(result.rank)];
  // The lower quartile: a rank that was merely disturbed for a while is not a straggler. A few
  // milliseconds in all steps together may be time slices of another process.
  constexpr double kLeastWait = 50.0;  // ms
  const double wait = (result.ms - result.others) * static_cast<double>(mine.size());
  if (quantile(mine, 0.25) <= limit || wait < kLeastWait) {
    return {};
  }
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const bool last = std::ranges::all_of(
        times, [&](const std::vector<double>& rank) { return rank[i] <= mine[i]; });
    result.share += last ? 1.0 / static_cast<double>(mine.size()) : 0.0;
  }
  return result;
}

/// The worse of the two.
std::optional<Straggler> find_straggler(const RankTimes& compute, const RankTimes& load) {
  const auto slow = find_straggler(compute, Straggler::Reason::compute);
  const auto late = find_straggler(load, Straggler::Reason::data);
  return slow && (!late || slow->ms - slow->others >= late->ms - late->others) ? slow : late;
}

/// Half the distance of two quantiles that are two standard deviations apart if the logarithms are
/// normal. What rarely disturbs a rank, and much, does not count.
double spread_of(const std::vector<double>& values) {
  constexpr double kBelow = 0.1587;  // Φ(-1)
  const double low = quantile(values, kBelow);
  return low > 0.0 ? std::log(quantile(values, 1.0 - kBelow) / low) / 2.0 : 0.0;
}

}  // namespace

void TimingHistory::add(const StepSpans& spans, double samples) {
  if (steps_.size() == 2 * kKept) {
    steps_.erase(steps_.begin(), steps_.end() - static_cast<std::ptrdiff_t>(kKept));
    forgotten_ += kKept;
  }
  steps_.push_back({times_of(spans), spans.collectives, samples});
}

std::vector<StepTimes> times_of(std::span<const TimedStep> steps) {
  std::vector<StepTimes> times;
  std::ranges::transform(steps, std::back_inserter(times), &TimedStep::times);
  return times;
}

double samples_per_second(std::span<const TimedStep> steps, double step_ms) {
  const double all =
      std::accumulate(steps.begin(), steps.end(), 0.0,
                      [](double sum, const TimedStep& step) { return sum + step.samples; });
  return step_ms > 0.0 ? 1e3 * all / static_cast<double>(steps.size()) / step_ms : 0.0;
}

double quantile(std::vector<double> values, double fraction) {
  if (values.empty()) {
    return 0.0;
  }
  std::sort(values.begin(), values.end());
  const double place = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], place - static_cast<double>(below));
}

StepTimes median_times(std::span<const StepTimes> steps) {
  StepTimes result;
  for (const auto part : {&StepTimes::step, &StepTimes::wait, &StepTimes::forward,
                          &StepTimes::backward, &StepTimes::optimizer, &StepTimes::comm,
                          &StepTimes::hidden, &StepTimes::exposed, &StepTimes::load}) {
    result.*part = median_of(steps, part);
  }
  return result;
}

double hidden_fraction(std::span<const StepTimes> steps) {
  double hidden = 0.0;
  double comm = 0.0;
  for (const StepTimes& times : steps) {
    hidden += times.hidden;
    comm += times.comm;
  }
  return comm > 0.0 ? hidden / comm : 0.0;
}

TrafficPerStep per_step(const dist::Traffic& traffic, std::int64_t steps) {
  const auto count = static_cast<double>(steps);
  return {.collectives = static_cast<double>(traffic.collectives) / count,
          .bytes_reduced = static_cast<double>(traffic.bytes_reduced) / count,
          .bytes_sent = static_cast<double>(traffic.bytes_sent) / count};
}

TimingSummary summarize(const TimingHistory& history, std::size_t warmup,
                        dist::Communicator& comm) {
  const std::size_t warm = std::min(warmup, (history.forgotten() + history.steps().size()) / 4);
  const std::size_t skipped = warm - std::min(warm, history.forgotten());
  const std::span<const TimedStep> steps = history.steps().subspan(skipped);
  TimingSummary summary;
  RankTimes compute;
  RankTimes load;
  std::vector<double> spreads;
  std::vector<double> slowest(steps.size());
  const auto ranks = dist::all_gather_sequences(comm, times_of(steps));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      slowest[i] = std::max(slowest[i], ranks[rank][i].step);
    }
    const StepTimes median = median_times(ranks[rank]);
    if (rank == 0 || median.step > summary.median.step) {
      summary.median = median;
      summary.slowest_rank = static_cast<int>(rank);
    }
    std::ranges::transform(ranks[rank], std::back_inserter(compute.emplace_back()),
                           [](const StepTimes& times) { return times.step - times.wait; });
    std::ranges::transform(ranks[rank], std::back_inserter(load.emplace_back()), &StepTimes::load);
    spreads.push_back(spread_of(compute.back()));
  }
  summary.spread = quantile(std::move(spreads), 0.5);
  const auto root = static_cast<std::size_t>(summary.slowest_rank);

  summary.rank_compute = medians_of(compute);
  summary.rank_load = medians_of(load);
  summary.straggler = find_straggler(compute, load);
  summary.measured_steps = steps.size();
  summary.step = quantile(slowest, 0.5);
  summary.samples_per_second = samples_per_second(steps, summary.step);
  summary.step_p10 = quantile(slowest, 0.1);
  summary.step_p90 = quantile(slowest, 0.9);
  summary.step_p95 = quantile(slowest, 0.95);
  summary.communicates = comm.size() > 1 && summary.median.comm > 0.0;
  summary.hidden_fraction = hidden_fraction(ranks[root]);
  // Each rank's own: a collective that runs across the border of two steps may lie in another one
  // on each rank.
  summary.collectives = dist::all_gather_sequences(comm, median_collectives(steps))[root];
  return summary;
}

}  // namespace brigade::apps
