#include "apps/training/shrinking.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "apps/report/report.h"
#include "core/error.h"
#include "dist/sockets/socket_mesh.h"

namespace brigade::apps {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kExitCode = 5;

extern "C" void end_start(int /*signal*/) {
  constexpr std::string_view kText =
      "--on-failure shrink: expected the ranks to begin within --timeout seconds, but one does not "
      "answer; start the job again\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kText.data(), kText.size());
  _exit(kExitCode);
}

/// What mpirun --enable-recovery sets. Without an Open MPI there is nothing to know.
void check_launcher(const dist::RankInfo& ranks) {
  const char* recovery = std::getenv("OMPI_MCA_orte_enable_recovery");
  const bool by_mpirun = std::getenv("OMPI_COMM_WORLD_RANK") != nullptr;
  if (by_mpirun && ranks.size > 1 && (recovery == nullptr || std::string_view(recovery) != "1")) {
    throw UsageError(
        "--on-failure shrink: expected an mpirun that leaves the other ranks alone when one ends, "
        "got its default; start it with mpirun --enable-recovery");
  }
}

/// Those of `before` that are not in `now`.
std::vector<int> missing(const std::vector<int>& before, const std::vector<int>& now) {
  std::vector<int> result;
  std::ranges::set_difference(before, now, std::back_inserter(result));
  return result;
}

}  // namespace

void limit_start(const Options& options) {
  if (options.shrinks() && options.timeout > 0.0) {
    constexpr double kLongest = 1e9;  // alarm() takes whole seconds
    std::signal(SIGALRM, end_start);
    alarm(static_cast<unsigned>(std::ceil(std::min(options.timeout, kLongest))));
  }
}

dist::WatchOptions watch_options(const Options& options, Runtime& runtime) {
  dist::WatchOptions result{
      .warn_after = options.stall_warn, .end_after = options.timeout, .enabled = runtime.can_watch};
  if (runtime.survivors != nullptr) {
    result.lost_after = 0.0;
    result.end = [&runtime](const dist::Diagnosis& diagnosis) {
      const bool among_them = std::ranges::count(diagnosis.culprits, runtime.comm->rank()) > 0;
      if (!diagnosis.others_may_go_on || among_them) {
        return false;
      }
      runtime.loss.why = diagnosis.text;
      runtime.survivors->give_up(diagnosis.culprits);
      runtime.comm->abandon();
      return true;
    };
  }
  return result;
}

int train_and_shrink(const Options& options, dist::RankInfo ranks, Runtime& runtime,
                     const std::function<int(const dist::RankInfo&)>& train) {
  if (!options.shrinks()) {
    return train(ranks);
  }
  check_launcher(ranks);
  dist::Survivors survivors(*runtime.comm);
  runtime.survivors = &survivors;
  alarm(0);  // limit_start()
  for (;;) {
    const std::vector<int> before = survivors.members();
    try {
      runtime.comm = dist::make_socket_communicator(options.comm, survivors.connect());
      choose_sum(options, *runtime.comm);
      const int code = train(ranks);
      if (runtime.lost > 0) {  // MPI cannot end in peace any more
        std::fflush(nullptr);
        std::_Exit(code);
      }
      return code;
    } catch (const dist::PeerLost&) {
      runtime.loss.noticed = Clock::now();
    }
    runtime.comm->abandon();
    survivors.agree();
    runtime.loss.ranks = missing(before, survivors.members());
    runtime.lost += static_cast<int>(runtime.loss.ranks.size());
    ranks.size = static_cast<int>(survivors.members().size());
    ranks.rank = survivors.rank();
  }
}

void print_beginning(const Console& console, const RunInfo& info, const Runtime& runtime) {
  if (runtime.lost == 0) {
    print_first_screen(console, info);
    return;
  }
  const std::vector<int>& lost = runtime.loss.ranks;
  const std::chrono::duration<double> passed = Clock::now() - runtime.loss.noticed;
  const data::BatchGeometry& g = info.geometry;
  const std::string batch =
      info.options.keep_global_batch
          ? fmt::format("{} micro-batches instead of {}, global batch {} as before", g.accum,
                        info.options.accum, g.global_batch())
          : fmt::format("global batch {} instead of {}", g.global_batch(), g.step_stride());
  const std::string why = !runtime.loss.why.empty() ? runtime.loss.why
                          : lost.size() == 1
                              ? fmt::format("rank {} is lost", lost.front())
                              : fmt::format("ranks {} are lost", fmt::join(lost, ", "));
  console.note(fmt::format(
      "{}; {} of {} ranks go on (mpirun's {}) from step {}, {}, {:.2f} s later", why,
      info.ranks.size, info.ranks.size + runtime.lost,
      fmt::join(runtime.survivors->members(), ", "), info.first_step + 1, batch, passed.count()));
}

}  // namespace brigade::apps
