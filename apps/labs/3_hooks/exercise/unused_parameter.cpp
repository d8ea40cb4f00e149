// Exercise 3: a parameter without a gradient. Complete on_grad_ready() and on_backward_end().
//
// A parameter that the loss does not depend on never becomes ready. If that happens on one rank
// only, the other ranks wait in its all-reduce for ever. The listener must throw an error that
// names the parameter when backward ends.
#include "apps/labs/common.h"

namespace brigade::labs {
namespace {

class CheckedSync final : public AllReduceListener {
 public:
  using AllReduceListener::AllReduceListener;

  // TODO: remember that parameter `index` is ready.
  void on_grad_ready(std::size_t index) override {
    works_.push_back(comm_.all_reduce(parameters_[index].grad()));
  }

  void on_backward_end() override {
    AllReduceListener::on_backward_end();
    // TODO: throw Error(...) with the names of the parameters that were not ready. Reset the record
    // first: the next backward starts from nothing.
  }
};

/// Runs a backward in which all parameters get gradients, then one in which forgotten.bias gets
/// none. Returns the second one's error.
std::string complaint(nn::Module& model, dist::Communicator& comm) {
  const Variable forgotten(Tensor::zeros({3}), /*requires_grad=*/true, "forgotten.bias");
  std::vector<Variable> parameters = model.parameters();
  parameters.insert(parameters.begin() + 3, forgotten);
  const CheckedSync sync(parameters, comm);
  const auto loss = [&] { return loss_of(model, make_batch(0, comm.rank())); };
  (loss() + sum(forgotten)).backward();
  try {
    loss().backward();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace

void run(dist::Communicator& comm, Recorder& trace) {
  const auto model = make_model();
  {
    const CheckedSync sync(model->parameters(), comm);
    train(*model, comm, trace, [&](const Variable& loss) { loss.backward(1.0 / comm.size()); });
  }
  check_weights(model->parameters(), comm, comm.size());
  const std::string said = complaint(*model, comm);
  expect(said.find("forgotten.bias") != std::string::npos,
         "expected an error that names forgotten.bias, backward said " + said);
  expect(said.find("4.bias") == std::string::npos,
         "expected an error that does not name 4.bias, which is ready, backward said " + said);
  say(comm, "backward said: {}", said);
}

}  // namespace brigade::labs
