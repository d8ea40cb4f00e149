// Lab 1: no synchronisation.
//
// Every rank has a copy of the network and its own share of the samples, and trains without
// communication. All copies start equal. After the first step they are N different networks, and
// none of them has learned from all samples.
#include "apps/labs/common.h"

namespace brigade::labs {

void run(dist::Communicator& comm, Recorder& trace) {
  const auto model = make_model();
  const std::vector<Variable> parameters = model->parameters();
  optim::SGD optimizer(parameters, {.lr = kLearningRate});
  say(comm, "before step 0: largest weight difference between ranks {:.6f}",
      difference_between_ranks(parameters, comm));

  for (int step = 0; step < kSteps; ++step) {
    // Rank r takes piece r of the global batch: data parallelism divides the samples, not the net.
    const Batch batch = make_batch(step, comm.rank());
    trace.start();  // for the time line of --trace, like all lines with `trace`
    optimizer.zero_grad();
    const Variable loss = loss_of(*model, batch);
    trace.forward_done();
    loss.backward();
    trace.backward_done();
    // Each rank applies the gradient of its own samples.
    optimizer.step();
    trace.finish();
    say_step(step, loss, parameters, comm);
  }

  const double difference = difference_between_ranks(parameters, comm);
  if (comm.size() == 1) {
    say(comm, "one rank has nobody to differ from; start more with mpirun -np 2");
    return;
  }
  expect(difference > 0.0,
         "expected the ranks to drift apart, but all hold the same weights: did they all take the "
         "same samples?");
  say(comm, "ranks differ by {:.6f}: {} ranks have trained {} different networks", difference,
      comm.size(), comm.size());
}

}  // namespace brigade::labs
