#include "apps/training/program.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "apps/report/console.h"
#include "apps/training/shrinking.h"
#include "core/error.h"

namespace brigade::apps {
int leave_early(const EarlyExit& exit) {
  const int rank = dist::launcher_rank();
  if (exit.exit_code != 0 && dist::started_by_srun()) {
    return dist::run_main([&exit](const dist::MpiSession&) -> int {
      throw UsageError(exit.text.substr(0, exit.text.find_last_not_of('\n') + 1));
    });
  }
  if (exit.exit_code != 0 && rank > 0) {
    // A rank that still runs after these seconds is alone with its mistake. If rank 0 has it as
    // well, mpirun ends the others; on other hosts that was seen to take 2.5 s.
    std::this_thread::sleep_for(std::chrono::seconds(6));
    write_all(STDERR_FILENO, fmt::format("[rank {}] {}", rank, exit.text));
  } else if (rank == 0) {
    const int error = write_all(exit.exit_code == 0 ? STDOUT_FILENO : STDERR_FILENO, exit.text);
    if (exit.exit_code == 0 && error != 0) {
      write_all(STDERR_FILENO, fmt::format("stdout: cannot write: {}\n", std::strerror(error)));
      return 1;
    }
  }
  return exit.exit_code;
}

int run_program(int argc, char** argv, Program program,
                const std::function<int(const Options&, const dist::RankInfo&)>& body) {
  std::signal(SIGPIPE, SIG_IGN);  // `train_mlp | head` must not end a training
  Parsed<Options> parsed = parse_options(argc, argv, program);
  if (!parsed.exit) {
    limit_start(parsed.options);
  }
  return run_program(parsed.exit, [&](const dist::RankInfo& ranks) {
    parsed.options.share_global_batch(ranks.size);
    return body(parsed.options, ranks);
  });
}

int run_program(const std::optional<EarlyExit>& exit,
                const std::function<int(const dist::RankInfo&)>& body) {
  if (exit) {
    return leave_early(*exit);
  }
  return dist::run_main([&](const dist::MpiSession& session) { return body(session.info()); });
}

}  // namespace brigade::apps
