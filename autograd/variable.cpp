#include "autograd/variable.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "autograd/engine.h"
#include "autograd/node.h"
#include "core/error.h"
#include "core/runtime/recycle.h"

namespace brigade::autograd {
namespace {

std::shared_ptr<GradState> make_grad_state(const Tensor& data) {
  BRIGADE_CHECK(data.dtype() == DType::f32 || data.dtype() == DType::f64,
                "variable: only f32 and f64 can require a gradient, got ", data.dtype());
  auto state = make_recycled<GradState>();
  state->shape = data.shape();
  state->dtype = data.dtype();
  state->device = data.device();
  return state;
}

}  // namespace

Variable::Variable(Tensor data, bool requires_grad, std::string name)
    : state_(make_recycled<State>()) {
  BRIGADE_CHECK(data.defined(), "variable: the tensor is undefined");
  if (requires_grad) {
    state_->grad_state = make_grad_state(data);
  }
  state_->data = std::move(data);
  set_name(std::move(name));
}

Variable make_output(Tensor data, std::shared_ptr<Node> producer) {
  Variable output(std::move(data), producer != nullptr);
  if (producer) {
    output.grad_state()->producer = std::move(producer);
  }
  return output;
}

const std::string& Variable::name() const {
  return state_->name;
}

void Variable::set_name(std::string name) const {
  // Twice, because engine and listeners see only the GradState, which may outlive the Variable.
  if (state_->grad_state) {
    state_->grad_state->name = name;
  }
  state_->name = std::move(name);
}

void Variable::set_requires_grad(bool required) const {
  BRIGADE_CHECK(is_leaf(), "variable '", name(),
                "': only a leaf can be frozen; freeze the parameters it was computed from");
  // The state of a frozen leaf lives on: a DataParallel that listens to it notices the change, and
  // still hears of the leaf when it trains again.
  if (state_->grad_state) {
    state_->grad_state->frozen = !required;
  } else if (required) {
    state_->grad_state = make_grad_state(state_->data);
    state_->grad_state->name = state_->name;
  }
}

Tensor Variable::grad() const {
  if (!requires_grad() || !grad_state()->filled) {
    return {};
  }
  wait_until_readable();
  return grad_state()->grad;
}

void Variable::backward(double grad_scale) const {
  autograd::backward(*this, {.seed = grad_scale});
}

// Nothing is written. The first contribution of the next backward overwrites (beta = 0) instead of
// adding to zeros: one pass over every gradient less.
void Variable::zero_grad() const {
  if (GradState* state = grad_state().get()) {
    state->filled = false;
    state->synchronized = true;
    state->unused = false;
    state->updated = false;
  }
}

void Variable::move_data_to(const Tensor& place) const {
  place.copy_from(data());
  state_->data = place;
  if (GradState* state = grad_state().get()) {
    ++state->moves;
    if (state->in_place) {
      state->in_place->values = place;
    }
  }
}

void Variable::move_grad_to(const Tensor& place) const {
  BRIGADE_CHECK(requires_grad(), "variable '", name(), "': has no gradient to move");
  GradState& state = *grad_state();
  BRIGADE_CHECK(place.shape() == state.shape && place.dtype() == state.dtype &&
                    place.device() == state.device,
                "variable '", name(), "': expected a gradient place ", state.dtype, " ",
                state.shape, " on ", state.device, ", got ", place.dtype(), " ", place.shape(),
                " on ", place.device());
  if (state.filled) {  // accumulated so far; it must not be lost when buckets are made in between
    wait_until_readable();
    place.copy_from(state.grad);
  }
  state.loan.call_in();  // or an output would keep the old memory, perhaps a whole bucket
  state.grad = place;
  ++state.moves;
}

void Variable::move_to(Device device) const {
  if (device == this->device()) {
    return;
  }
  BRIGADE_CHECK(is_leaf(), "variable '", name(),
                "': only a leaf can move to another device; move the parameters it was computed "
                "from");
  GradState* state = grad_state().get();
  BRIGADE_CHECK(state == nullptr || state->listeners.empty(), "variable '", name(),
                "': expected to move to ", device,
                " before a DataParallel wraps it, but one does; call to(device) first");
  state_->data = data().to(device);
  if (state != nullptr) {
    state->loan.call_in();
    state->grad = state->filled ? state->grad.to(device) : Tensor();
    state->device = device;
    ++state->moves;
  }
}

void Variable::update_in_backward(Scale scale) const {
  BRIGADE_CHECK(grad_state() != nullptr && is_leaf(), "variable '", name(),
                "': only a leaf that has required a gradient can be updated in backward");
  GradState& state = *grad_state();
  state.in_place = std::make_unique<GradState::InPlace>(GradState::InPlace{data(), scale});
  ++state.moves;  // its gradient goes elsewhere from now on
}

void Variable::stop_updates_in_backward() const {
  if (grad_state() && std::exchange(grad_state()->in_place, nullptr)) {
    ++grad_state()->moves;
  }
}

HookHandle Variable::add_hook(TensorHook hook) const {
  BRIGADE_CHECK(requires_grad(), "variable '", name(),
                "': a hook needs a variable that requires a gradient");
  GradState& state = *grad_state();
  const std::size_t id = state.next_hook_id++;
  if (!state.hooks) {
    state.hooks = std::make_unique<GradState::Hooks>();
  }
  state.hooks->list.push_back({id, std::move(hook)});
  return {grad_state(), id};
}

HookHandle Variable::attach_listener(GradListener& listener, std::size_t index) const {
  BRIGADE_CHECK(requires_grad() && is_leaf(), "variable '", name(),
                "': only a leaf that requires a gradient reports it");
  GradState& state = *grad_state();
  const std::size_t id = state.next_hook_id++;
  state.listeners.push_back({id, &listener, index});
  return {grad_state(), id};
}

HookHandle& HookHandle::operator=(HookHandle&& other) noexcept {
  if (this != &other) {
    detach();
    state_ = std::move(other.state_);
    id_ = other.id_;
  }
  return *this;
}

// The handle does not keep the variable alive: if that is gone, there is nothing to detach from.
void HookHandle::detach() noexcept {
  if (const std::shared_ptr<GradState> state = state_.lock()) {
    if (state->hooks) {
      std::erase_if(state->hooks->list, [this](const auto& hook) { return hook.id == id_; });
    }
    std::erase_if(state->listeners, [this](const auto& listener) { return listener.id == id_; });
  }
  state_.reset();
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

std::vector<float> values_of(const std::vector<Variable>& variables) {
  std::vector<float> all;
  for (const Variable& variable : variables) {
    const std::vector<float> values = variable.data().to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace brigade::autograd
