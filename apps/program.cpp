#include "apps/program.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <span>
#include <thread>

#include "apps/console.h"
#include "apps/summary.h"

namespace brigade::apps {

namespace {

/// --help and mistakes in the flags, before there is any MPI: rank 0 prints and leaves, which makes
/// mpirun end the others.
int leave(const ParseResult& parsed) {
  if (dist::launcher_rank() == 0) {
    write_all(parsed.exit_code == 0 ? STDOUT_FILENO : STDERR_FILENO, parsed.text);
  } else if (parsed.exit_code != 0) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  return parsed.exit_code;
}

}  // namespace

int run_program(int argc, char** argv, Program program,
                const std::function<int(const Options&, const dist::RankInfo&)>& body) {
  std::signal(SIGPIPE, SIG_IGN);  // `train_mlp | head` must not end a training
  const ParseResult parsed = parse_options(argc, argv, program);
  if (!parsed.options) {
    return leave(parsed);
  }
  return dist::run_main(
      [&](const dist::MpiSession& session) { return body(*parsed.options, session.info()); });
}

std::filesystem::path agree_on_directory(const Options& options, dist::Communicator& comm) {
  constexpr std::size_t kLongestPath = 4096;
  std::string path = comm.rank() == 0 ? make_run_directory(options.out).string() : "";
  path.resize(kLongestPath);
  comm.broadcast(std::as_writable_bytes(std::span(path)), 0);
  return path.c_str();
}

}  // namespace brigade::apps
