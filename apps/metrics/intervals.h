#pragma once

#include <vector>

namespace brigade::apps {

/// A stretch of time in ms, begin <= end.
struct Interval {
  double begin = 0.0;
  double end = 0.0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// Disjoint intervals in ascending order: what every function here returns and expects.
using IntervalSet = std::vector<Interval>;

/// The union of any intervals: overlapping and touching ones are joined, empty ones dropped.
IntervalSet join(std::vector<Interval> intervals);

/// What lies in both sets.
IntervalSet intersect(const IntervalSet& a, const IntervalSet& b);

/// What lies in `a` but not in `b`.
IntervalSet subtract(const IntervalSet& a, const IntervalSet& b);

double total_length(const IntervalSet& set);

}  // namespace brigade::apps
