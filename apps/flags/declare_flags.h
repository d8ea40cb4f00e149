#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "apps/flags/options.h"

namespace brigade::apps {

inline constexpr std::array kComms{"auto", "mpi",  "shared",  "hierarchical",
                                   "nccl", "ring", "halving", "tree"};
inline constexpr std::array kModes{"naive", "flat", "per_param", "overlap", "no_sync"};

/// How the flags describe the network's shape.
struct ShapeFlags {
  std::vector<std::int64_t> hidden;
  std::int64_t depth = 0;
  std::int64_t width = 0;
};

/// Declares the flags of `program`, each bound to its field of `options` or `shape`.
void declare_flags(CLI::App& app, Program program, Options& options, ShapeFlags& shape);

}  // namespace brigade::apps
