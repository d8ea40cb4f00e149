#include "dist/launch/launch.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <new>
#include <set>
#include <string>
#include <thread>

#include "core/error.h"
#include "dist/comm/mpi_check.h"
#include "dist/comm/mpi_communicator.h"
#include "dist/launch/stop_signals.h"

namespace brigade::dist {
namespace {

/// Open MPI reads OMPI_MCA_* in MPI_Init. Its defaults run a non-blocking all-reduce at half the
/// wire's speed: the ring algorithm and rendezvous of whole segments double it. Its crash handler
/// can deadlock. What the user has set stays.
void set_open_mpi_defaults() {
  setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "1", 0);
  setenv("OMPI_MCA_btl_tcp_eager_limit", "1100000", 0);
  setenv("OMPI_MCA_btl_tcp_rndv_eager_limit", "1100000", 0);
  setenv("OMPI_MCA_btl_tcp_max_send_size", "1100000", 0);
  setenv("OMPI_MCA_opal_signal", "", 0);
}

/// The cores of the processors that `wanted` selects, each named by the list of its processors.
template <class Wanted>
std::set<std::string> cores_of(Wanted wanted) {
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (wanted(cpu)) {
      const std::string topology = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", cpu);
      std::string siblings;
      if (!std::getline(std::ifstream(topology + "thread_siblings_list"), siblings)) {
        siblings = std::to_string(cpu);  // no topology known: each processor is a core
      }
      cores.insert(siblings);
    }
  }
  return cores;
}

std::set<std::string> online_cores() {
  const int online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return cores_of([online](int cpu) { return cpu < online; });
}

/// Cores this rank may use: its binding when mpirun bound it, else its share of the host.
int usable_cores(int local_size) {
  const int all = static_cast<int>(online_cores().size());
  const int mine = static_cast<int>(bound_cores().size());
  return std::clamp(mine, 1, std::max(1, all / local_size));
}

RankInfo query_rank_info() {
  MpiCommunicator world;
  RankInfo info;
  static_cast<Placement&>(info) = placement_of(world.rank(), world.host_of_ranks());
  info.rank = world.rank();
  info.size = world.size();
  char name[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  MPI_CHECK(MPI_Get_processor_name(name, &length));
  info.host.assign(name, static_cast<std::size_t>(length));
  info.threads = usable_cores(info.local_size);
  return info;
}

/// Most mistakes, such as a missing file or ranks that disagree, hit all ranks alike, and one
/// report is enough: the lowest rank that failed prints and ends the job while those above still
/// hold their lines back. A rank that is alone with its mistake reports it too, a little later.
void let_lower_ranks_report(int rank) {
  // MPI_Abort takes longer to end a job of srun.
  const std::chrono::milliseconds head_start(started_by_srun() ? 1500 : 500);
  constexpr int kLongest = 3;
  std::this_thread::sleep_for(head_start * std::min(rank, kLongest));
}

int exit_code(const std::exception& error) {
  if (dynamic_cast<const UsageError*>(&error) != nullptr) {
    return 2;
  }
  if (dynamic_cast<const VerificationError*>(&error) != nullptr) {
    return 3;
  }
  return dynamic_cast<const Interrupted*>(&error) != nullptr ? 4 : 1;
}

int number_in_environment(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::atoi(value) : otherwise;
}

/// A process among several of srun's that cannot find the others: Open MPI would say so in twenty
/// lines each.
bool is_without_pmix() {
  return number_in_environment("SLURM_STEP_NUM_TASKS", 1) > 1 &&
         std::getenv("OMPI_COMM_WORLD_RANK") == nullptr && std::getenv("PMIX_RANK") == nullptr;
}

}  // namespace

std::set<std::string> bound_cores() {
  cpu_set_t bound;
  CPU_ZERO(&bound);
  return sched_getaffinity(0, sizeof bound, &bound) == 0
             ? cores_of([&bound](int cpu) { return CPU_ISSET(cpu, &bound); })
             : online_cores();
}

// Under mpirun in a job of Slurm's, SLURM_PROCID is that of mpirun's daemon.
int launcher_rank() {
  return number_in_environment(
      "OMPI_COMM_WORLD_RANK",
      number_in_environment("PMIX_RANK",
                            is_without_pmix() ? number_in_environment("SLURM_PROCID", 0) : 0));
}

bool started_by_srun() {
  return std::getenv("PMIX_RANK") != nullptr && std::getenv("OMPI_COMM_WORLD_RANK") == nullptr;
}

MpiSession::MpiSession() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  BRIGADE_CHECK(initialized == 0,
                "run: MPI has been started already; call run() once, and do not call MPI_Init");
  set_open_mpi_defaults();
  int granted = MPI_THREAD_SINGLE;
  MPI_CHECK(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &granted));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  BRIGADE_CHECK(granted >= MPI_THREAD_MULTIPLE,
                "mpi: needs MPI_THREAD_MULTIPLE, this MPI grants level {}; use an Open MPI built "
                "with thread support (Debian's is)",
                granted);
  info_ = query_rank_info();
}

MpiSession::~MpiSession() {
  if (std::uncaught_exceptions() == exceptions_at_start_) {
    MPI_Finalize();
  }
}

int run_main(const std::function<int(MpiSession&)>& body) {
  int rank = launcher_rank();
  if (is_without_pmix()) {  // every process sees that, so one may speak for all
    if (rank == 0) {
      report_line("srun: expected --mpi=pmix, got processes that do not know each other");
    }
    return 2;
  }
  // Until the failure is told.
  const auto last_words = started_by_srun() ? std::make_unique<LastWords>() : nullptr;
  try {
    MpiSession session;
    rank = session.info().rank;
    try {
      return body(session);
    } catch (const std::bad_alloc&) {
      throw Error("out of host memory; use a smaller model, batch, data set or message");
    } catch (const std::exception&) {
      throw;
    } catch (...) {
      throw Error("the program threw what is no std::exception");
    }
  } catch (const std::exception& error) {
    let_lower_ranks_report(rank);
    std::fflush(stdout);  // MPI_Abort ends the process without it
    report_line(fmt::format("[rank {}] {}", rank, error.what()));
    const int code = exit_code(error);
    int initialized = 0;
    MPI_Initialized(&initialized);
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (initialized != 0 && finalized == 0) {
      MPI_Abort(MPI_COMM_WORLD, code);  // ends the other ranks too, within a second
    }
    return code;
  }
}

}  // namespace brigade::dist
