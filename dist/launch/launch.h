#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "core/device.h"
#include "dist/comm/communicator.h"
#include "dist/comm/placement.h"

namespace brigade::dist {

/// Where this process stands among the processes mpirun started; 1 rank when there was no mpirun.
struct RankInfo : Placement {
  int rank = 0;
  int size = 1;
  int threads = 1;  ///< cores this rank may use: its binding, at most its share of the host
  std::string host;
};

/// The cores that this process may run on, by name. Two hardware threads of one core share its
/// arithmetic units, so they are one core.
std::set<std::string> bound_cores();

/// Owns MPI from start to end. Construct one in main, after the flags were parsed.
class MpiSession {
 public:
  /// Sets Open MPI's tuning for overlap in the environment (never overriding the user's), then
  /// starts MPI with MPI_THREAD_MULTIPLE: the communication thread makes collectives progress while
  /// main may be in a barrier.
  MpiSession();
  /// Finalizes MPI, unless an exception is on its way out: then a rank could wait for ever for one
  /// that is gone.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  const RankInfo& info() const { return info_; }

 private:
  RankInfo info_;
  int exceptions_at_start_ = std::uncaught_exceptions();
};

/// The rank as the environment of mpirun or srun gives it, before MPI is up: usage errors are
/// printed by rank 0, by another rank only if it is alone with them (apps/training/program.cpp).
int launcher_rank();

/// Whether srun's PMIx has started this process, without mpirun. Such a process that ends before
/// MPI is up leaves the others running.
bool started_by_srun();

/// `cpu`, `cuda` or `auto`. For cuda: GPU number local_rank modulo the GPUs of this host. `auto`
/// takes the GPU when all ranks have one. UsageError with the CUDA runtime's own reason when cuda
/// is asked for and absent; `note` gets one line when auto fell back to the CPU in a CUDA build.
Device choose_device(const std::string& request, const RankInfo& info, Communicator& control,
                     std::string& note);

/// A communicator for tensors on `device`. `mpi`; `nccl`; CPU only: `shared` memory of one host;
/// `hierarchical`, that within each host and the ring over sockets between them; `ring`, `halving`
/// or `tree`, that algorithm over sockets. `auto` takes NCCL on GPUs, or `mpi` with a warning
/// where NCCL fails on a rank. On CPUs it takes `shared` on one host, or `mpi` where shared memory
/// is forbidden; on several hosts `hierarchical` if each has equally many ranks and more than one,
/// else the ring; one rank gets SingleProcessCommunicator. Prints one warning line on rank 0 when
/// ranks share a GPU.
/// UsageError for combinations that cannot work.
std::unique_ptr<Communicator> make_communicator(const std::string& request, Device device);

/// The communicator "ring" (which "auto" also means here), "halving" or "tree" over sockets, whose
/// host side is `control`. Collective over that.
std::unique_ptr<Communicator> make_socket_communicator(const std::string& request,
                                                       std::unique_ptr<Communicator> control);

/// Runs `body` as the whole of a program between MPI's start and end. An exception on any rank is
/// printed as `[rank r] message` in one write, then the job is ended with MPI_Abort, so that no
/// rank waits for a dead one. When several ranks fail at once, the lowest of them speaks for all.
/// Processes that srun has started without --mpi=pmix end with one line and exit code 2.
/// Exit codes: 1 run-time failure, 2 UsageError, 3 VerificationError, 4 Interrupted; 5 where a
/// Watch ends the job.
int run_main(const std::function<int(MpiSession&)>& body);

}  // namespace brigade::dist
