#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/flags/command_line.h"
#include "core/dtype.h"
#include "dist/comm/emulated_link.h"

namespace brigade::apps {

/// What bench_all_reduce was asked for; its --help explains each.
struct BenchOptions {
  std::size_t min_bytes = std::size_t{4} << 10U;
  std::size_t max_bytes = std::size_t{64} << 20U;
  double factor = 4.0;
  std::int64_t warmup = 3;
  std::int64_t iterations = 20;
  std::string type = "f32";
  std::string memory = "bucket";
  std::vector<std::string> comms;  // empty: all that work here
  std::vector<std::string> reduce{"fast"};
  std::string device = "auto";
  bool check = true;
  std::optional<dist::LinkModel> emulated_link;
  bool json = false;
  std::string command_line;

  /// On every line with times that an emulated link has a part in.
  const char* link_text() const { return emulated_link ? " (emulated link)" : ""; }
  DType dtype() const { return type == "f64" ? DType::f64 : DType::f32; }
  /// Sizes in bytes, each `factor` times the one before.
  std::vector<std::size_t> sizes() const;
  /// One line per flag that all ranks must have alike.
  std::vector<std::string> agreement() const;
};

struct BenchParse {
  BenchOptions options;
  std::optional<EarlyExit> exit;  ///< set: end here instead
};
BenchParse parse_bench_options(int argc, const char* const* argv);

}  // namespace brigade::apps
