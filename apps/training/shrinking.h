#pragma once

#include <functional>

#include "apps/training/run_info.h"
#include "dist/watch/watch.h"

namespace brigade::apps {

/// With --on-failure shrink, before MPI starts: ends this process with exit code 5 if that and all
/// else before train_and_shrink() takes longer than --timeout. Until there is a watch, nobody
/// misses a rank that dies: mpirun was told to leave the others alone.
void limit_start(const Options& options);

/// --stall-warn, --timeout and --on-failure. `runtime` must outlive the watch.
dist::WatchOptions watch_options(const Options& options, Runtime& runtime);

/// Calls `train` with the ranks of `runtime`. With --on-failure shrink calls it again when ranks
/// were lost, with those that are left, numbered anew, and a new communicator, until it returns.
/// What is to go on then must not be made inside. UsageError: mpirun would end the others.
/// Collective.
int train_and_shrink(const Options& options, dist::RankInfo ranks, Runtime& runtime,
                     const std::function<int(const dist::RankInfo&)>& train);

/// The first screen, or that ranks were lost and how those that are left go on.
void print_beginning(const Console& console, const RunInfo& info, const Runtime& runtime);

}  // namespace brigade::apps
