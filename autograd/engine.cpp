#include "autograd/engine.h"

#include <algorithm>
#include <utility>

#include "autograd/accumulate_grad.h"
#include "core/error.h"
#include "core/ops.h"
#include "core/runtime/trace.h"

namespace brigade::autograd {

void Variable::backward(double grad_scale) const {
  BRIGADE_CHECK(requires_grad(),
                "backward: the root requires no gradient: nothing it depends on does, or it was "
                "computed under NoGradGuard");
  BRIGADE_CHECK(data().numel() == 1, "backward: expected a scalar root, got {}", shape());
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): a listener may drop this Variable
  const std::shared_ptr<GradState> root = grad_state();
  Engine().run(*root, grad_scale);
}

// Backward is a topological walk over GradStates (values) and Nodes (functions), from the root to
// the leaves:
//
//   1. discover() counts, for every value the root depends on, how many contributions its gradient
//      will receive: one per use of the value in forward. It also collects the leaves' listeners.
//   2. The root receives grad_scale.
//   3. A gradient that has received its last contribution is complete. If a node computed the
//      value, the value goes into `ready_`. If it is a leaf, its listeners hear of it at once,
//      inside the node's backward (AccumulateGrad::finish says why).
//   4. Of the ready values, the one whose node was recorded last is taken, and its node computes
//      the gradients of its inputs from it. Again from 3.
void Engine::run(GradState& root, double grad_scale) {
  try {
    discover(root);
    tell_listeners(&GradListener::on_backward_begin);
    root.pending_ = 1;
    Tensor seed = Tensor::empty(root.shape_, root.dtype_, root.device_);
    ops::fill(grad_scale, seed);
    const GradSlot slot = AccumulateGrad::next_slot(root);
    ops::axpby(seed, slot.scale, slot.place);
    written(root);

    while (!ready_.empty()) {
      GradState* next = ready_.top();  // recorded last (RunsLater)
      ready_.pop();
      run_node(*next);
      tell_listeners(&GradListener::on_node_end);
    }
    tell_listeners(&GradListener::on_backward_end);
  } catch (...) {
    tell_listeners(&GradListener::on_backward_abort);
    reset();
    throw;
  }
  reset();
}

void Engine::tell_listeners(void (GradListener::*event)()) const {
  for (GradListener* listener : listeners_) {
    (listener->*event)();
  }
}

void Engine::discover(GradState& root) {
  std::vector<GradState*> frontier;  // not a recursion: a deep model would overflow the stack
  const auto reach = [&](GradState* state) {
    if (!std::exchange(state->in_graph_, true)) {
      graph_.push_back(state);
      frontier.push_back(state);
    }
  };
  reach(&root);
  while (!frontier.empty()) {
    GradState* state = frontier.back();
    frontier.pop_back();
    // Few listeners, often one for all parameters: a linear search is the fastest set.
    for (const GradState::Listener& entry : state->listeners_) {
      if (std::ranges::find(listeners_, entry.listener) == listeners_.end()) {
        listeners_.push_back(entry.listener);
      }
    }
    if (state->is_leaf()) {
      continue;
    }
    BRIGADE_CHECK(state->producer_->backward != nullptr,
                  "backward: the graph behind {} was freed by an earlier backward; call forward "
                  "again, or backward once on the sum of the losses",
                  state->producer_->name);
    for (const std::shared_ptr<GradState>& input : state->producer_->inputs) {
      if (input) {
        ++input->pending_;
        reach(input.get());
      }
    }
  }
}

void Engine::written(GradState& state) {
  BRIGADE_CHECK(state.pending_ > 0, "backward: a function wrote the gradient of '{}' twice",
                state.name_);
  if (--state.pending_ > 0) {
    return;
  }
  if (state.is_leaf()) {
    AccumulateGrad::finish(state);
    return;
  }
  ready_.push(&state);
}

void Engine::run_node(GradState& output) {
  Node& node = *output.producer_;
  const TraceScope scope(node.name, [&node] { return node.parameter(); });
  // Moved out of the state: once the node has read dy, the memory is free for the next gradient.
  const Tensor dy = std::exchange(output.grad_, Tensor());
  output.has_grad_ = false;

  GradWriter writer(*this, node);
  node.backward(dy, writer);
  const auto expected = static_cast<std::size_t>(std::ranges::count_if(
      node.inputs, [](const std::shared_ptr<GradState>& input) { return input != nullptr; }));
  BRIGADE_CHECK(writer.written() == expected, "backward: {}: expected {} gradients, got {}",
                node.name, expected, writer.written());
  node.backward = nullptr;  // frees what it kept, so that memory falls while backward runs
}

GradSlot GradWriter::slot_of(std::size_t i) {
  return AccumulateGrad::next_slot(*node_.inputs[i]);
}

void GradWriter::report(std::size_t i) {
  ++written_;
  engine_.written(*node_.inputs[i]);
}

// Leaves live on, and after a failure the graph may: neither must remember this pass.
void Engine::reset() noexcept {
  for (GradState* state : graph_) {
    state->pending_ = 0;
    state->in_graph_ = false;
    state->accumulate_scale_ = 1.0;
    if (!state->is_leaf()) {
      state->grad_ = Tensor();
      state->has_grad_ = false;
    }
  }
}

}  // namespace brigade::autograd
