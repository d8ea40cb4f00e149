// Exercise 8: the tied weight without a recorded order. Repair tied_weight_last().
//
// Rank 0's order is known only after the first backward. But which parameter is late can be known
// before: one that forward uses more than once, in its first layer. Here that is parameter 0.
#include <numeric>

#include "apps/labs/8_tied_weights/planned_sync.h"

namespace brigade::labs {
namespace {

constexpr std::size_t kCapBytes = 20'000;

/// The parameters in the order in which buckets are filled: the last layer first.
std::vector<std::size_t> tied_weight_last(std::size_t parameters) {
  std::vector<std::size_t> order(parameters);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  // TODO: this moves parameter 0 to the front, as if it belonged to the output layer alone. Its
  // gradient is complete last.
  std::rotate(order.begin(), order.end() - 1, order.end());
  return order;
}

}  // namespace

void run(dist::Communicator& comm, Recorder& /*trace*/) {
  nn::GPT model = make_gpt();
  const std::vector<Variable> parameters = model.parameters();
  const std::vector<std::size_t> order = tied_weight_last(parameters.size());
  PlannedSync sync(parameters, comm,
                   dist::assign_buckets(dist::plan_parameters(parameters), order, kCapBytes));
  gpt_loss(model, 0, comm.rank()).backward(1.0 / comm.size());
  say(comm, "{} of {} buckets leave during backward", sync.early(), sync.buckets());
  expect(sync.early() + 1 == sync.buckets(),
         fmt::format("expected all buckets but one to leave during backward, got {} of {}",
                     sync.early(), sync.buckets()));
  expect(sync.half_way() > 0,
         "expected the first bucket to leave in the first half of backward, but none did");
}

}  // namespace brigade::labs
