#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/flags/command_line.h"

namespace brigade::apps {

/// The flags of bench_all_reduce; `bench_all_reduce --help` explains each.
struct BenchOptions {
  std::size_t min_bytes = std::size_t{4} << 10U;
  std::size_t max_bytes = std::size_t{64} << 20U;
  double factor = 4.0;
  std::int64_t warmup = 3;
  std::int64_t iterations = 20;
  std::vector<std::string> comms{"auto"};
  std::string device = "auto";
  bool json = false;
  /// Each flag that was given, with its value; the others as comments.
  std::vector<std::string> config;

  /// Sizes in bytes: min_bytes, then `factor` times the previous one up to max_bytes, each rounded
  /// down to whole elements.
  std::vector<std::size_t> sizes() const;
};

Parsed<BenchOptions> parse_bench_options(int argc, const char* const* argv);

}  // namespace brigade::apps
