// A training job in which rank 1 fails in the way the first argument names; the second is a --comm.
// See expect_failure.cmake.
#include <csignal>
#include <string>

#include "core/error.h"
#include "dist/launch/launch.h"
#include "tests/support/small_model.h"
#include "tests/support/small_training.h"

namespace brigade {
namespace {

int run(dist::MpiSession& session, const std::string& how, const std::string& kind) {
  const auto made = dist::make_communicator(kind, kCpu);
  dist::Communicator& comm = *made;
  const bool fails = session.info().rank == 1;
  BRIGADE_CHECK(how != "throw_on_all", "broken on purpose");
  if (how == "throw_before_collectives") {
    BRIGADE_CHECK(!fails, "broken on purpose");
  }
  test::train(comm, {.steps = 2});
  if (how == "die" && fails) {
    std::raise(SIGKILL);
  }
  if (how == "throw_in_backward") {
    const auto model = test::make_mlp({4, 4, 4});
    const dist::GradAverager parallel(model->parameters(), comm,
                                      {.mode = dist::SyncMode::per_param});
    struct Failing final : autograd::GradListener {
      void on_grad_ready(std::size_t /*index*/) override { throw Error("broken on purpose"); }
    } listener;
    const autograd::ListenerHandle handle =
        fails ? parallel.parameters()[2].attach_listener(listener, 2) : autograd::ListenerHandle();
    test::backward_once(*model, 4, 4);
  }
  // The others are now in an all-reduce that rank 1 never joins.
  if (how == "throw_while_others_reduce") {
    const dist::Work work = comm.all_reduce(Tensor::zeros({1 << 20}));
    BRIGADE_CHECK(!fails, "broken on purpose");
    comm.wait(work);
  }
  // The failing rank's own communication thread waits for the others, who do not come.
  if (how == "throw_while_reducing_alone") {
    const dist::Work never = fails ? comm.all_reduce(Tensor::zeros({1 << 20})) : dist::Work();
    BRIGADE_CHECK(!fails, "broken on purpose");
    comm.barrier();
  }
  test::train(comm, {.steps = 2});
  return 0;
}

}  // namespace
}  // namespace brigade

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  const std::string kind = argc > 2 ? argv[2] : "mpi";
  return brigade::dist::run_main(
      [&](brigade::dist::MpiSession& session) { return brigade::run(session, how, kind); });
}
