// Lab 8: tied weights.
//
// A GPT uses one matrix twice: at the beginning of forward wte.weight turns tokens into rows, in
// the end it turns rows into logits. Backward meets the uses in the opposite order: the first part
// of the gradient comes at once, the last part when everything else is done. Only then is the
// gradient complete.
//
// Buckets leave in order. A plan that has this matrix in bucket 0, where an output layer belongs,
// holds back all others until backward is over: nothing overlaps. The remedy is to ask backward for
// the order instead of guessing it from the layers.
#include <numeric>

#include "apps/labs/8_tied_weights/planned_sync.h"
#include "dist/comm/gather.h"

namespace brigade::labs {
namespace {

constexpr std::size_t kCapBytes = 20'000;

struct Outcome {
  std::vector<float> weights;
  std::vector<std::size_t> ready_order;
};

/// Trains with buckets in the order `order`.
Outcome train_gpt(const std::vector<std::size_t>& order, const char* plan,
                  std::size_t expected_late, dist::Communicator& comm, Recorder& trace) {
  nn::GPT model = make_gpt();
  const std::vector<Variable> parameters = model.parameters();
  const PlannedSync sync(parameters, comm,
                         dist::assign_buckets(dist::plan_parameters(parameters), order, kCapBytes));
  optim::SGD optimizer(parameters, {.lr = kLearningRate});
  for (int step = 0; step < kSteps; ++step) {
    trace.start();
    optimizer.zero_grad();
    const Variable loss = gpt_loss(model, step, comm.rank());
    trace.forward_done();
    loss.backward(1.0 / comm.size());
    trace.backward_done();
    optimizer.step();
    trace.finish();
  }
  const double difference = difference_between_ranks(parameters, comm);
  say(comm, "{}: {} of {} buckets leave during backward; ranks differ by {}", plan, sync.early(),
      sync.buckets(), difference);
  expect(difference == 0.0, "expected equal weights on all ranks");
  expect(sync.buckets() - sync.early() == expected_late,
         fmt::format("expected {} buckets to be late", expected_late));
  return {autograd::values_of(parameters), sync.ready_order()};
}

}  // namespace

void run(dist::Communicator& comm, Recorder& trace) {
  const std::vector<Variable> parameters = make_gpt().parameters();
  // As the layers suggest: the output layer, whose weight is parameter 0, then the last parameter,
  // and so on to the second.
  std::vector<std::size_t> by_layer(parameters.size());
  std::iota(by_layer.rbegin(), by_layer.rend(), std::size_t{0});
  std::rotate(by_layer.begin(), by_layer.end() - 1, by_layer.end());
  const std::size_t all =
      dist::assign_buckets(dist::plan_parameters(parameters), by_layer, kCapBytes).size();
  const apps::Options untraced;
  Recorder nobody(untraced, comm, kSteps);
  const Outcome guessed = train_gpt(by_layer, "by layer", all, comm, nobody);

  say(comm, "ready first: {}", parameters[guessed.ready_order.front()].name());
  say(comm, "ready last: {}", parameters[guessed.ready_order.back()].name());
  // All ranks must have the same plan, so they take rank 0's order.
  const std::vector<std::size_t> order = dist::broadcast_from_rank0(comm, guessed.ready_order);
  const Outcome asked = train_gpt(order, "by readiness", 1, comm, trace);

  double largest = 0.0;
  for (std::size_t i = 0; i < asked.weights.size(); ++i) {
    largest = std::max<double>(largest, std::abs(asked.weights[i] - guessed.weights[i]));
  }
  say(comm, "the order of buckets changes the weights by at most {:.1e}", largest);
  expect(largest < 1e-5, "expected the same weights from both plans");
}

}  // namespace brigade::labs
