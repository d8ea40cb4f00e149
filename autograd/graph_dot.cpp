#include "autograd/graph_dot.h"

#include <unordered_map>
#include <vector>

#include "autograd/node.h"
#include "core/error.h"

namespace brigade::autograd {

std::string graph_dot(const Variable& root,
                      const std::function<std::string(const GradState& leaf)>& attributes) {
  BRIGADE_CHECK(root.requires_grad(), "graph: expected a variable that requires a gradient");
  std::string vertices;
  std::string arrows;
  std::unordered_map<const GradState*, std::size_t> numbers;
  std::vector<const GradState*> frontier;  // not a recursion: a deep model would overflow the stack
  const auto number_of = [&](const GradState* state) {
    const auto [entry, is_new] = numbers.try_emplace(state, numbers.size());
    if (is_new) {
      frontier.push_back(state);
    }
    return entry->second;
  };
  number_of(root.grad_state().get());
  while (!frontier.empty()) {
    const GradState* state = frontier.back();
    frontier.pop_back();
    const std::size_t number = number_of(state);
    if (state->is_leaf()) {
      vertices += fmt::format("  v{} [shape=ellipse, {}];\n", number, attributes(*state));
      continue;
    }
    vertices += fmt::format("  v{} [label=\"{}\"];\n", number, state->producer()->name);
    for (const std::shared_ptr<GradState>& input : state->producer()->inputs) {
      if (input) {
        arrows += fmt::format("  v{} -> v{};\n", number_of(input.get()), number);
      }
    }
  }
  return fmt::format("digraph {{\n  node [shape=box, style=filled, fillcolor=white];\n{}{}}}\n",
                     vertices, arrows);
}

}  // namespace brigade::autograd
