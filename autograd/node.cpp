#include "autograd/node.h"

#include "autograd/accumulate_grad.h"
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
  RecyclingVector<std::shared_ptr<GradState>> orphans = std::move(inputs);
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

bool GradWriter::wanted(std::size_t i) const {
  return node_.inputs.at(i) != nullptr;
}

bool GradWriter::updates(std::size_t i) const {
  return wanted(i) && updates_values(*node_.inputs[i]);
}

const ReluMask* GradWriter::take_mask(std::size_t i) {
  if (!wanted(i) || node_.inputs[i]->is_leaf()) {
    return nullptr;
  }
  GradState& state = *node_.inputs[i];
  const bool alone = state.pending == 1 && !state.filled;
  const ReluMask* mask = alone && !hooked(state) ? state.producer->relu_mask() : nullptr;
  state.masked = mask != nullptr;
  return mask;
}

GradWriter::Place GradWriter::place_of(std::size_t i) {
  const Engine::Destination destination = engine_.destination(*node_.inputs[i]);
  return {destination.place, destination.scale};
}

void GradWriter::delivered(std::size_t i) {
  ++written_;
  engine_.delivered(*node_.inputs[i]);
}

}  // namespace brigade::autograd
