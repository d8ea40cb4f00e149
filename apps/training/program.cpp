#include "apps/training/program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <set>
#include <system_error>
#include <thread>

#include "apps/report/console.h"
#include "apps/training/shrinking.h"
#include "core/error.h"
#include "core/io/atomic_file.h"
#include "dist/comm/gather.h"

namespace brigade::apps {
namespace {

/// Makes the directory for a run's files: `requested`, or the first free runs/<n>.
std::filesystem::path make_run_directory(const std::string& requested) {
  std::error_code error;
  if (!requested.empty()) {
    std::filesystem::create_directories(requested, error);
    if (error) {
      throw UsageError(
          message_of("--out ", requested, ": cannot make the directory: ", error.message()));
    }
    return requested;
  }
  std::filesystem::create_directories("runs", error);
  // create_directory is mkdir: of two runs that try the same number only one succeeds.
  for (int n = 1; !error; ++n) {
    std::filesystem::path candidate = std::filesystem::path("runs") / std::to_string(n);
    if (std::filesystem::create_directory(candidate, error)) {
      return candidate;
    }
  }
  throw UsageError(message_of("runs: cannot make a directory for this run: ", error.message(),
                              "; choose another place with --out DIR"));
}

}  // namespace

int leave_early(const std::string& text, int exit_code) {
  const int rank = dist::launcher_rank();
  if (exit_code != 0 && dist::started_by_srun()) {
    return dist::run_main([&text](const dist::MpiSession&) -> int {
      throw UsageError(text.substr(0, text.find_last_not_of('\n') + 1));
    });
  }
  if (exit_code != 0 && rank > 0) {
    // A rank that still runs after these seconds is alone with its mistake. If rank 0 has it as
    // well, mpirun ends the others; on other hosts that was seen to take 2.5 s.
    std::this_thread::sleep_for(std::chrono::seconds(6));
    write_all(STDERR_FILENO, message_of("[rank ", rank, "] ", text));
  } else if (rank == 0) {
    const int error = write_all(exit_code == 0 ? STDOUT_FILENO : STDERR_FILENO, text);
    if (exit_code == 0 && error != 0) {
      write_all(STDERR_FILENO, message_of("stdout: cannot write: ", std::strerror(error), "\n"));
      return 1;
    }
  }
  return exit_code;
}

int run_program(int argc, char** argv, Program program,
                const std::function<int(const Options&, const dist::RankInfo&)>& body) {
  std::signal(SIGPIPE, SIG_IGN);  // `train_mlp | head` must not end a training
  const ParseResult parsed = parse_options(argc, argv, program);
  if (!parsed.options) {
    return leave_early(parsed.text, parsed.exit_code);
  }
  limit_start(*parsed.options);
  return dist::run_main([&](const dist::MpiSession& session) {
    Options options = *parsed.options;
    options.share_global_batch(session.info().size);
    return body(options, session.info());
  });
}

void check_output_files(const std::vector<std::filesystem::path>& files) {
  std::set<std::filesystem::path> places;
  for (const std::filesystem::path& file : files) {
    const AtomicFile attempt(file);
    const std::filesystem::path directory = file.has_parent_path() ? file.parent_path() : ".";
    if (!places.insert(canonical(directory) / file.filename()).second) {
      throw UsageError(message_of("cannot write ", file.string(),
                                  ": expected a place of its own, but this run writes another file "
                                  "there"));
    }
  }
}

void OutputFiles::write(const std::filesystem::path& file, const std::function<void()>& how) {
  try {
    how();
    written_.push_back(file);
  } catch (const Error&) {
    failure_ = failure_ ? failure_ : std::current_exception();
  }
}

void OutputFiles::check() const {
  if (failure_) {
    std::rethrow_exception(failure_);
  }
}

std::filesystem::path agree_on_directory(const Options& options, dist::Communicator& comm) {
  std::string path;
  if (comm.rank() == 0) {
    path = make_run_directory(options.out).string();
  }
  return dist::all_gather_sequences(comm, path).front();
}

void write_config(const Options& options, const std::filesystem::path& directory) {
  write_file_atomically(directory / kConfig, fmt::format("{}\n", fmt::join(options.config, "\n")));
}

}  // namespace brigade::apps
