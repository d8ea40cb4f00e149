#include "autograd/engine.h"

#include <algorithm>
#include <utility>

#include "autograd/accumulate_grad.h"
#include "core/error.h"
#include "core/ops.h"
#include "core/runtime/context.h"
#include "core/runtime/recording.h"
#include "core/runtime/trace.h"

namespace brigade::autograd {
namespace {

/// Heap order: the producer recorded last runs first. That is the reverse of forward, so a node
/// runs as late as it can, and the order is the same on every rank.
bool runs_later(const GradState* a, const GradState* b) {
  return a->producer->sequence < b->producer->sequence;
}

/// " 4.weight": what tells one linear node from another in a time line.
std::string layer_of(const Node& node) {
  for (const std::shared_ptr<GradState>& input : node.inputs) {
    if (input && input->is_leaf() && !input->name.empty()) {
      return " " + input->name;
    }
  }
  return {};
}

}  // namespace

void backward(const Variable& root, BackwardOptions options) {
  BRIGADE_CHECK(root.requires_grad(),
                "backward: the root requires no gradient: nothing it depends on does, or it was "
                "computed under NoGradGuard");
  BRIGADE_CHECK(root.data().numel() == 1, "backward: expected a scalar root, got ", root.shape());
  // A hook may drop `root`. NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const std::shared_ptr<GradState> kept = root.grad_state();
  Engine().run(*kept, options);
}

// Backward is a topological walk over GradStates (values) and Nodes (functions), from the root to
// the leaves:
//
//   1. discover() counts, for every value the root depends on, how many gradients it will receive:
//      one per use of it in forward.
//   2. The root receives the seed.
//   3. A value that has received its last contribution is complete. If it was computed by a node,
//      it goes into `ready_`. If it is a leaf, nothing else depends on it and its listeners hear of
//      it at once, inside the node's backward: queued behind the nodes still to run, the news would
//      reach the network many kernels late and the overlap would silently vanish.
//   4. Of the ready values, the one whose node was recorded last is taken, and its node computes
//      the gradients of its inputs from it. Again from 3.
void Engine::run(GradState& root, const BackwardOptions& options) {
  Stream& stream = compute_stream(root.device);
  try {
    discover(root);
    tell_listeners(stream, &GradListener::on_backward_begin);

    root.pending = 1;  // the seed is the root's one contribution
    Tensor seed = Tensor::empty(root.shape, root.dtype, root.device);
    ops::fill(options.seed, seed);
    Destination into = destination(root);
    ops::axpby(seed, into.scale, into.place);
    delivered(root);

    while (!ready_.empty()) {
      std::pop_heap(ready_.begin(), ready_.end(), runs_later);
      GradState* next = ready_.back();
      ready_.pop_back();
      run_node(*next, options.retain_graph);
      tell_listeners(stream, &GradListener::on_node_end);
    }
    tell_listeners(stream, &GradListener::on_backward_end);
  } catch (...) {
    for (GradListener* listener : listeners_) {
      listener->on_backward_abort();
    }
    reset();
    throw;
  }
  reset();
}

/// Now and, on a CPU, in every replay of this backward (core/runtime/recording.h).
void Engine::tell_listeners(Stream& stream, void (GradListener::*event)()) const {
  for (GradListener* listener : listeners_) {
    repeatable(stream, [listener, event] { (listener->*event)(); });
  }
}

void Engine::discover(GradState& root) {
  // Iterative: a recursion as deep as the model would overflow the stack.
  RecyclingVector<GradState*> frontier;
  const auto reach = [&](GradState* state) {
    if (!state->reached) {
      state->reached = true;
      reached_.push_back(state);
      frontier.push_back(state);
    }
  };
  reach(&root);
  while (!frontier.empty()) {
    GradState* state = frontier.back();
    frontier.pop_back();
    // Few listeners, often one for all parameters: a linear search is the fastest set.
    for (const GradState::Listener& entry : state->listeners) {
      if (std::find(listeners_.begin(), listeners_.end(), entry.listener) == listeners_.end()) {
        listeners_.push_back(entry.listener);
      }
    }
    if (state->is_leaf()) {
      continue;
    }
    BRIGADE_CHECK(!state->producer->released, "backward: the graph behind ",
                  state->producer->name(),
                  " was freed by an earlier backward; pass retain_graph to the earlier one");
    for (const std::shared_ptr<GradState>& input : state->producer->inputs) {
      if (input) {
        ++input->pending;
        reach(input.get());
      }
    }
  }
}

Engine::Destination Engine::destination(GradState& state) {
  if (state.is_leaf()) {
    return leaf_destination(state);
  }
  // The first contribution overwrites, the others add: beta of the GEMM instead of a zero-filled
  // buffer and an add kernel.
  if (!state.filled) {
    state.grad = Tensor::empty(state.shape, state.dtype, state.device);
  }
  const double beta = state.filled ? 1.0 : 0.0;
  state.filled = true;
  return {state.grad, {.alpha = 1.0, .beta = beta}};
}

void Engine::delivered(GradState& state) {
  BRIGADE_CHECK(state.pending > 0, "backward: a function delivered the gradient of '", state.name,
                "' twice");
  if (--state.pending > 0) {
    return;
  }
  if (state.is_leaf()) {
    leaf_finished(state);
    return;
  }
  ready_.push_back(&state);
  std::push_heap(ready_.begin(), ready_.end(), runs_later);
}

void Engine::run_node(GradState& output, bool retain_graph) {
  Node& node = *output.producer;
  const TraceScope scope(node.name(), [&node] { return layer_of(node); });
  // Taken out of the state: once backward below has read it, the memory is free for the next
  // activation's gradient.
  Tensor dy = std::exchange(output.grad, Tensor());
  output.filled = false;
  // Who took the mask saw no hook. One that came since then may have replaced what was masked.
  const bool dy_is_masked = output.masked && !hooked(output);
  apply_hooks(output, dy);

  std::size_t expected = 0;
  for (const std::shared_ptr<GradState>& input : node.inputs) {
    expected += input ? 1 : 0;
  }
  GradWriter gradients(*this, node, dy_is_masked, retain_graph);
  node.backward(dy, gradients);
  BRIGADE_CHECK(gradients.written() == expected, "backward: ", node.name(), " owes ", expected,
                " gradients and wrote ", gradients.written());
  // Saved activations go as soon as they have been used, so memory falls while backward runs.
  if (!retain_graph) {
    node.release();
    node.released = true;
  }
}

// Also after an exception in the middle: whatever this pass has touched is as it was before, except
// the leaves' gradients. Graph states that live on (retain_graph) must not remember it.
void Engine::reset() noexcept {
  for (GradState* state : reached_) {
    state->pending = 0;
    state->reached = false;
    state->carry = 1.0;
    if (state->hooks) {
      state->hooks->staging = Tensor();
    }
    if (!state->is_leaf()) {
      state->grad = Tensor();
      state->filled = false;
      state->masked = false;
    }
  }
}

}  // namespace brigade::autograd
