#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string_view>
#include <type_traits>

#include "core/device.h"
#include "dist/comm/communicator.h"
#include "dist/launch/launch.h"
#include "dist/watch/watch.h"

namespace brigade::dist {

/// The ranks that train together, as one of them sees it.
class World {
 public:
  World(const RankInfo& ranks, Device device, std::shared_ptr<Communicator> communicator,
        std::shared_ptr<Watch> watch = nullptr);

  int rank() const { return ranks_.rank; }
  int size() const { return ranks_.size; }
  int local_rank() const { return ranks_.local_rank; }  ///< among the ranks on this node
  int node() const { return ranks_.node_rank; }
  Device device() const { return device_; }
  Communicator& communicator() const { return *communicator_; }
  /// Returns when all ranks have called it.
  void barrier() const { communicator_->barrier(); }

  /// A number by its short name: "rank" or "grank" (the global rank), "ws" (world size), "lrank"
  /// (local rank), "node", "pg" (number of the process group: 0, as the world is the only one).
  /// Error that lists these names for any other.
  int get(std::string_view name) const;

 private:
  RankInfo ranks_;
  Device device_;
  std::shared_ptr<Communicator> communicator_;
  std::shared_ptr<Watch> watch_;  // ends before the communicator does
};

/// run() for a body that returns the exit code.
int run_in_world(const std::function<int(World&)>& body);

/// The whole of main(): starts MPI, opens the world, calls fn(world) on every rank, ends MPI. One
/// rank without mpirun. Returns the exit code: what `fn` returns, 0 where it returns nothing. An
/// exception on any rank is printed in one line and ends the job; see run_main (launch.h) for that
/// line and the exit codes. Call it once: MPI cannot start again. The arguments are not read: parse
/// them before.
///
/// The ranks compute on GPUs if every rank has one, else on CPUs with one thread per core of this
/// rank; the communicator is make_communicator's "auto". A Watch says who is waited for when all
/// ranks have stood still for 10 s. It ends the job after 10 minutes, or after 6 s if a rank that
/// is waited for has ended.
template <std::invocable<World&> Fn>
int run(int /*argc*/, char** /*argv*/, Fn fn) {
  return run_in_world([&fn](World& world) {
    if constexpr (std::is_void_v<std::invoke_result_t<Fn&, World&>>) {
      fn(world);
      return 0;
    } else {
      return fn(world);
    }
  });
}

}  // namespace brigade::dist
