#include "autograd/node.h"

#include "autograd/engine.h"
#include "core/error.h"

namespace brigade::autograd {
namespace {
thread_local std::uint64_t next_sequence = 0;
}  // namespace

Node::Node() : sequence(next_sequence++) {}

Node::~Node() {
  // A graph is a chain of shared pointers as long as the model is deep: destroyed recursively,
  // 100,000 layers would overflow the stack. Whatever this node alone keeps alive is taken apart
  // here, one node after the other.
  std::vector<std::shared_ptr<GradState>> orphans = std::move(inputs);
  while (!orphans.empty()) {
    const std::shared_ptr<GradState> state = std::move(orphans.back());
    orphans.pop_back();
    if (state && state.use_count() == 1 && state->producer && state->producer.use_count() == 1) {
      for (std::shared_ptr<GradState>& input : state->producer->inputs) {
        orphans.push_back(std::move(input));
      }
      state->producer->inputs.clear();
    }
  }
}

bool Gradients::wanted(std::size_t i) const {
  return node_.inputs.at(i) != nullptr;
}

void Gradients::write(std::size_t i, const std::function<void(Tensor& dst, Scale scale)>& fn) {
  if (!wanted(i)) {
    return;
  }
  GradState& input = *node_.inputs[i];
  Engine::Destination destination = engine_.destination(input);
  fn(destination.place, destination.scale);
  ++written_;
  engine_.delivered(input);
}

}  // namespace brigade::autograd
