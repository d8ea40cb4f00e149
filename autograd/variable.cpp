#include "autograd/variable.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "autograd/node.h"
#include "core/error.h"

namespace brigade::autograd {

Variable::Variable(Tensor data, bool requires_grad, std::string name)
    : state_(std::make_shared<State>()) {
  BRIGADE_CHECK(data.defined(), "variable: the tensor is undefined");
  if (requires_grad) {
    state_->grad_state = std::make_shared<GradState>(data, nullptr);
  }
  state_->data = std::move(data);
  set_name(std::move(name));
}

Variable::State& Variable::state() const {
  BRIGADE_CHECK(state_ != nullptr, "variable: expected one with a value, got an undefined one");
  return *state_;
}

Variable make_output(Tensor data, std::shared_ptr<Node> producer) {
  Variable output(std::move(data));
  if (producer) {
    const Tensor& values = output.state_->data;
    output.state_->grad_state = std::make_shared<GradState>(values, std::move(producer));
  }
  return output;
}

SavedTensor Variable::saved() const {
  return {recomputes() ? Tensor() : data(), state().recompute};
}

void Variable::set_recompute(std::function<Tensor()> recompute) const {
  if (requires_grad()) {
    state_->recompute = std::move(recompute);
  }
}

void Variable::set_name(std::string name) const {
  // Twice, because engine and listeners see only the GradState, which may outlive the Variable.
  if (state().grad_state) {
    state_->grad_state->name_ = name;
  }
  state_->name = std::move(name);
}

void Variable::set_requires_grad(bool required) const {
  BRIGADE_CHECK(
      is_leaf(),
      "variable '{}': only a leaf can be frozen; freeze the parameters it was computed from",
      name());
  // The state of a frozen leaf lives on: a DataParallel that listens to it notices the change, and
  // still hears of the leaf when it trains again.
  if (state_->grad_state) {
    state_->grad_state->frozen_ = !required;
  } else if (required) {
    state_->grad_state = std::make_shared<GradState>(state_->data, nullptr);
    state_->grad_state->name_ = state_->name;
  }
}

Tensor Variable::grad() const {
  if (!requires_grad() || !grad_state()->has_grad()) {
    return {};
  }
  wait_for_pending_write();
  return grad_state()->grad();
}

void Variable::zero_grad() const {
  if (grad_state()) {
    grad_state()->zero_grad();
  }
}

void Variable::move_data_to(const Tensor& place) const {
  place.copy_from(data());
  state_->data = place;
  if (grad_state()) {
    ++grad_state()->storage_version_;
  }
}

void Variable::move_grad_to(const Tensor& place) const {
  BRIGADE_CHECK(requires_grad(), "variable '{}': has no gradient to move", name());
  if (grad_state()->has_grad()) {
    wait_for_pending_write();
  }
  grad_state()->move_grad_to(place);
}

void Variable::move_to(Device device) const {
  if (device == this->device()) {
    return;
  }
  BRIGADE_CHECK(is_leaf(),
                "variable '{}': only a leaf can move to another device; move the parameters it was "
                "computed from",
                name());
  BRIGADE_CHECK(!grad_state() || !grad_state()->has_listeners(),
                "variable '{}': expected to move to {} before a DataParallel wraps it, but one "
                "does; call to(device) first",
                name(), device);
  state_->data = data().to(device);
  if (grad_state()) {
    grad_state()->move_to(device);
  }
}

ListenerHandle Variable::attach_listener(GradListener& listener, std::size_t index) const {
  BRIGADE_CHECK(requires_grad() && is_leaf(),
                "variable '{}': only a leaf that requires a gradient reports it", name());
  grad_state()->listeners_.push_back({&listener, index});
  return {grad_state(), listener, index};
}

ListenerHandle& ListenerHandle::operator=(ListenerHandle other) noexcept {
  std::swap(state_, other.state_);  // `other` detaches the old listener
  std::swap(listener_, other.listener_);
  std::swap(index_, other.index_);
  return *this;
}

// The handle does not keep the variable alive: if that is gone, there is nothing to detach from.
ListenerHandle::~ListenerHandle() {
  if (const std::shared_ptr<GradState> state = state_.lock()) {
    std::erase_if(state->listeners_, [this](const auto& entry) {
      return entry.listener == listener_ && entry.index == index_;
    });
  }
}

// Weights that two layers share are one leaf; the first name is kept.
std::vector<Variable> trainable(const std::vector<Variable>& parameters) {
  std::vector<Variable> result;
  std::unordered_set<const GradState*> seen;
  for (const Variable& parameter : parameters) {
    if (parameter.requires_grad() && seen.insert(parameter.grad_state().get()).second) {
      result.push_back(parameter);
    }
  }
  return result;
}

NamedTensors named_data(const std::vector<Variable>& variables) {
  NamedTensors tensors;
  for (const Variable& variable : variables) {
    tensors.emplace_back(variable.name(), variable.data());
  }
  return tensors;
}

std::vector<float> values_of(const std::vector<Variable>& variables) {
  std::vector<float> all;
  for (const Variable& variable : variables) {
    const std::vector<float> values = variable.data().to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace brigade::autograd
