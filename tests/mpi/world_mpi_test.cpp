// run() on the ranks that mpirun has started: without an argument the body returns a number, with
// "void" nothing, with "throw" it prints and fails on every rank, with "twice" run() comes again.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/error.h"
#include "dist/comm/gather.h"
#include "dist/launch/world.h"

namespace brigade::dist {
namespace {

int body(World& world) {
  Communicator& comm = world.communicator();
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  BRIGADE_CHECK(world.size() == (size != nullptr ? std::atoi(size) : 1), "got {}", world.size());
  BRIGADE_CHECK(comm.rank() == world.rank() && comm.size() == world.size(), "another rank");
  BRIGADE_CHECK(world.local_rank() == world.rank() && world.node() == 0, "more than one node");
  const std::vector<int> ranks = all_gather_values(comm, world.get("grank"));
  for (int rank = 0; rank < world.size(); ++rank) {
    BRIGADE_CHECK(ranks[static_cast<std::size_t>(rank)] == rank, "got {}", rank);
  }
  const Tensor one = Tensor::from(std::vector<float>{1}, {1}, world.device());
  comm.blocking_all_reduce(one);
  BRIGADE_CHECK(one.item() == world.size(), "sum: got {}", one.item());
  world.barrier();
  return 5;
}

}  // namespace
}  // namespace brigade::dist

int main(int argc, char** argv) {
  using brigade::dist::World;
  if (argc > 1 && std::strcmp(argv[1], "void") == 0) {
    return brigade::dist::run(argc, argv, [](World& world) { brigade::dist::body(world); });
  }
  if (argc > 1 && std::strcmp(argv[1], "throw") == 0) {
    return brigade::dist::run(argc, argv, [](World& world) {
      std::puts("printed before");
      world.barrier();
      throw brigade::VerificationError("expected equal weights");
    });
  }
  const int code = brigade::dist::run(argc, argv, brigade::dist::body);
  if (argc > 1 && std::strcmp(argv[1], "twice") == 0) {
    return brigade::dist::run(argc, argv, brigade::dist::body);
  }
  return code == 5 ? 0 : 1;
}
