#include "autograd/node.h"

#include <algorithm>
#include <utility>

#include "autograd/grad_mode.h"

namespace brigade::autograd {
namespace {
thread_local std::uint64_t next_sequence = 0;
}  // namespace

Node::Node(const char* its_name, BackwardFunction its_backward)
    : name(its_name), backward(std::move(its_backward)), sequence(next_sequence++) {}

Node::~Node() {
  // A graph is a chain of shared pointers as long as the model is deep: destroyed recursively,
  // 100,000 layers would overflow the stack. Whatever this node alone keeps alive is taken apart
  // here, one node after the other.
  std::vector<std::shared_ptr<GradState>> orphans = std::move(inputs);
  while (!orphans.empty()) {
    const std::shared_ptr<GradState> state = std::move(orphans.back());
    orphans.pop_back();
    if (state && state.use_count() == 1 && !state->is_leaf() &&
        state->producer().use_count() == 1) {
      for (std::shared_ptr<GradState>& input : state->producer()->inputs) {
        orphans.push_back(std::move(input));
      }
      state->producer()->inputs.clear();
    }
  }
}

std::string Node::parameter() const {
  for (const std::shared_ptr<GradState>& input : inputs) {
    if (input && input->is_leaf() && !input->name().empty()) {
      return " " + input->name();
    }
  }
  return {};
}

Variable record(const char* name, Tensor output, const std::vector<Variable>& inputs,
                BackwardFunction backward) {
  if (!grad_enabled() || !std::ranges::any_of(inputs, &Variable::requires_grad)) {
    return make_output(std::move(output), nullptr);
  }
  auto node = std::make_shared<Node>(name, std::move(backward));
  node->inputs.reserve(inputs.size());
  for (const Variable& input : inputs) {
    node->inputs.push_back(input.requires_grad() ? input.grad_state() : nullptr);
  }
  return make_output(std::move(output), std::move(node));
}

bool GradWriter::wanted(std::size_t i) const {
  return node_.inputs.at(i) != nullptr;
}

}  // namespace brigade::autograd
