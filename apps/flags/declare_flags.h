#pragma once

#include <array>

#include "apps/flags/options.h"

namespace brigade::apps {

inline constexpr std::array kComms{"auto", "mpi",  "shared",  "hierarchical",
                                   "nccl", "ring", "halving", "tree"};
inline constexpr std::array kModes{"naive", "flat", "per_param", "overlap", "no_sync"};

/// Declares the flags of `program`, each bound to its field of `options`.
void declare_flags(CLI::App& app, Program program, Options& options);

}  // namespace brigade::apps
