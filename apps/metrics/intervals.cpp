#include "apps/metrics/intervals.h"

#include <algorithm>

namespace brigade::apps {

IntervalSet join(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  IntervalSet joined;
  for (const Interval& next : intervals) {
    if (next.end <= next.begin) {
      continue;
    }
    if (!joined.empty() && next.begin <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, next.end);
    } else {
      joined.push_back(next);
    }
  }
  return joined;
}

IntervalSet intersect(const IntervalSet& a, const IntervalSet& b) {
  return subtract(a, subtract(a, b));
}

IntervalSet subtract(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet rest;
  for (const Interval& whole : a) {
    double begin = whole.begin;
    for (const Interval& hole : b) {
      if (hole.end <= begin || hole.begin >= whole.end) {
        continue;
      }
      if (hole.begin > begin) {
        rest.push_back({begin, hole.begin});
      }
      begin = hole.end;
    }
    if (begin < whole.end) {
      rest.push_back({begin, whole.end});
    }
  }
  return rest;
}

double total_length(const IntervalSet& set) {
  double length = 0.0;
  for (const Interval& interval : set) {
    length += interval.end - interval.begin;
  }
  return length;
}

}  // namespace brigade::apps
