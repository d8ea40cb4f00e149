// The main() of all labs, exercises and solutions. Parses the flags, starts MPI, calls run() of the
// lab, and writes the files of --trace. With --quiz it runs the quiz instead.
#include <algorithm>
#include <iostream>
#include <optional>

#include "apps/labs/common.h"
#include "apps/labs/quiz.h"
#include "apps/training/program.h"
#include "core/cpu/threads.h"
#include "dist/comm/emulated_link_communicator.h"
#include "dist/launch/launch.h"

namespace brigade::labs {
namespace {

int run_on_rank(const apps::Options& options, const dist::RankInfo& ranks) {
  const std::string name = kName;
  const bool exercise = name.starts_with("exercise");
  set_cpu_threads(1);
  std::unique_ptr<dist::Communicator> comm = dist::make_communicator("auto", kCpu);
  if (exercise && comm->size() == 1) {
    throw UsageError(name + ": needs at least two ranks: mpirun -np 2 ...");
  }
  if (!options.out.empty() && !options.trace) {
    throw UsageError("--out: expected --trace, whose files go there; add it");
  }
  if (options.emulated_link) {
    comm =
        std::make_unique<dist::EmulatedLinkCommunicator>(std::move(comm), *options.emulated_link);
  }
  Recorder recorder(options, *comm, kSteps);
  try {
    run(*comm, recorder);
  } catch (const VerificationError& error) {
    throw VerificationError(fmt::format("{}: {}{}", name, error.what(),
                                        exercise ? "; still to do: see TODO in its source" : ""));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", name, error.what()));
  }
  recorder.write(name, ranks.host);
  return 0;
}

/// The exit code of `lab --quiz`, with the answers from stdin; nothing if the command line has no
/// --quiz. Rank 0 takes the quiz, other ranks return at once: MPI is not started.
std::optional<int> run_quiz(int argc, char** argv) {
  const std::vector<std::string> flags(argv + 1, argv + argc);
  if (std::ranges::find(flags, "--quiz") == flags.end()) {
    return {};
  }
  if (flags.size() > 1) {
    return apps::leave_early({fmt::format("{}: expected --quiz and no other flag\n", kName), 2});
  }
  if (dist::launcher_rank() != 0) {
    return 0;
  }
  try {
    return take_quiz(parse_quiz(kQuiz), std::cin, std::cout);
  } catch (const UsageError& error) {
    return apps::leave_early({fmt::format("{}: {}\n", kName, error.what()), 2});
  }
}

}  // namespace
}  // namespace brigade::labs

int main(int argc, char** argv) {
  if (const auto exit_code = brigade::labs::run_quiz(argc, argv)) {
    return *exit_code;
  }
  return brigade::apps::run_program(argc, argv, brigade::apps::Program::lab,
                                    brigade::labs::run_on_rank);
}
