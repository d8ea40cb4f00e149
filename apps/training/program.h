#pragma once

#include <functional>
#include <string>

#include "apps/flags/options.h"
#include "dist/launch/launch.h"

/// What all programs do before and after their own work.
namespace brigade::apps {

/// The whole of main(): parses the flags before MPI starts, runs `body` on every rank, and turns
/// whatever goes wrong into one line and an exit code (dist::run_main).
int run_program(int argc, char** argv, Program program,
                const std::function<int(const Options&, const dist::RankInfo&)>& body);

/// Likewise for programs with flags of their own, which parse_command_line() has parsed.
int run_program(const std::optional<EarlyExit>& exit,
                const std::function<int(const dist::RankInfo&)>& body);

/// What main() returns when it is over before MPI starts. Rank 0 prints and leaves, which makes
/// mpirun end the others before they print the same.
int leave_early(const EarlyExit& exit);

}  // namespace brigade::apps
