#pragma once

#include <cstdint>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "apps/metrics/run_trace.h"

/// Literal traces, and what of a picture can be read back.
namespace brigade::test {

using apps::RankTrace;
using apps::RunTrace;
using apps::StepSpans;

struct Block {
  double x = 0.0, y = 0.0, width = 0.0, height = 0.0;
};

inline std::vector<std::smatch> all_matches(const std::string& text, const std::regex& pattern) {
  return {std::sregex_iterator(text.begin(), text.end(), pattern), std::sregex_iterator()};
}

/// The rectangles of this class, in the order in which they are drawn.
inline std::vector<Block> blocks(const std::string& svg, const std::string& style) {
  const std::regex pattern("<rect class=\"" + style +
                           R"re(( narrow)?" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" )re" +
                           R"re(height="([\d.]+)")re");
  std::vector<Block> found;
  for (const std::smatch& match : all_matches(svg, pattern)) {
    found.push_back(
        {std::stod(match[2]), std::stod(match[3]), std::stod(match[4]), std::stod(match[5])});
  }
  return found;
}

inline std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

// ms:       0        4              10   12  13
// compute   |forward |backward      |wait|opt|
// comm                     [6 -- 8]
//                               [7 ----- 12]
inline StepSpans overlapping_step() {
  StepSpans spans;
  spans.forwards = {{0, 4}};
  spans.backwards = {{4, 12}};
  spans.optimizer = {12, 13};
  spans.waits = {{10, 12}};
  spans.collectives = {{5, 6, 8, 1 << 20}, {7, 7, 12, 1 << 22}};
  spans.labels = {"bucket_0", "bucket_1"};
  return spans;
}

inline RankTrace rank_trace(int rank, std::vector<StepSpans> steps) {
  RankTrace trace{.rank = rank, .host = "host" + std::to_string(rank), .steps = {}};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    trace.steps.push_back({static_cast<std::int64_t>(7 + i), std::move(steps[i])});
  }
  return trace;
}

inline RunTrace run_trace(std::vector<std::vector<StepSpans>> ranks) {
  RunTrace trace{.title = "overlap", .device = "cpu", .comm = "MPI", .caption = {}, .ranks = {}};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    trace.ranks.push_back(rank_trace(static_cast<int>(rank), std::move(ranks[rank])));
  }
  return trace;
}

inline StepSpans started_at(double start, StepSpans spans) {
  spans.start = start;
  return spans;
}

}  // namespace brigade::test
