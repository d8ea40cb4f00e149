#include "autograd/replay.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/context.h"
#include "core/error.h"

namespace brigade::autograd {

Replay::Replay(std::vector<Variable> parameters, Device device)
    : parameters_(std::move(parameters)),
      device_(device),
      memory_(Context::current().make_reserved_memory(device)) {}

void Replay::forget_if_changed() {
  layouts_.resize(parameters_.size());
  bool changed = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const GradState& state = *parameters_[i].grad_state();
    BRIGADE_CHECK(!state.hooks || state.hooks->list.empty(), "replay: parameter '",
                  parameters_[i].name(),
                  "' has a hook, which a replay would not call; remove it, or do not replay");
    const Layout now{.moves = state.moves,
                     .attached = state.next_hook_id,
                     .listeners = state.listeners.size(),
                     .frozen = state.frozen,
                     .leaf_scale = state.leaf_scale};
    changed = changed || now != layouts_[i];
    layouts_[i] = now;
    parameters_[i].wait_until_readable();  // a replayed layer would not
  }
  if (changed) {
    entries_.clear();
  }
}

Replay::Entry& Replay::entry_of(const Key& key) {
  const auto before = [](const Variable& parameter) {
    const GradState& state = *parameter.grad_state();
    return Before{.filled = state.filled, .synchronized = state.synchronized};
  };
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry->key == key &&
           std::equal(parameters_.begin(), parameters_.end(), entry->before.begin(),
                      [&](const Variable& parameter, const Before& then) {
                        return before(parameter) == then;
                      });
  });
  if (found != entries_.end()) {
    return **found;
  }
  entries_.push_back(std::make_unique<Entry>());
  entries_.back()->key = key;
  std::transform(parameters_.begin(), parameters_.end(),
                 std::back_inserter(entries_.back()->before), before);
  return *entries_.back();
}

// The rehearsal takes from the system whatever the step needs, memory and library handles, which on
// a GPU may not happen while a graph is captured. Between two steps all of `memory_` is free: the
// loss is copied out of it, so no step finds less there than its rehearsal did.
Tensor Replay::forward(const Key& key, const std::function<Variable()>& compute) {
  current_ = nullptr;
  forget_if_changed();
  Entry& entry = entry_of(key);
  if (entry.forward && entry.backward) {
    entry.forward->replay();
    ++replays_;
  } else if (entry.rehearsed) {
    const UseReservedMemory reserved(memory_);
    entry.forward = record(device_, [&] {
      entry.loss = compute();
      entry.value.copy_from(entry.loss.data());
    });
  } else {
    {
      const UseReservedMemory reserved(memory_);
      entry.loss = compute();
    }
    entry.value = entry.loss.data().clone();
  }
  current_ = &entry;
  return entry.value;
}

void Replay::backward() {
  BRIGADE_CHECK(current_ != nullptr, "replay: backward without a forward before it");
  Entry& entry = *std::exchange(current_, nullptr);
  if (entry.forward && entry.backward) {
    replay_backward(entry);
    return;
  }
  const UseReservedMemory reserved(memory_);
  const Variable loss = std::exchange(entry.loss, Variable());
  const auto run = [&] { autograd::backward(loss, {.seed = entry.key.seed}); };
  const bool records = std::exchange(entry.rehearsed, false);
  if (records) {
    entry.backward = record(device_, run);
    entry.synchronized.clear();
    for (const Variable& parameter : parameters_) {
      entry.synchronized.push_back(parameter.grad_state()->synchronized);
    }
  } else {
    run();
  }
  entry.rehearsed = true;
}

void Replay::replay_backward(const Entry& entry) const {
  try {
    entry.backward->replay();
  } catch (...) {
    tell_listeners_of_failure();
    throw;
  }
  // What backward leaves in the gradients' states beside the numbers.
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    GradState& state = *parameters_[i].grad_state();
    state.filled = true;
    state.synchronized = entry.synchronized[i];
  }
}

void Replay::tell_listeners_of_failure() const {
  std::vector<GradListener*> told;
  for (const Variable& parameter : parameters_) {
    for (const GradState::Listener& entry : parameter.grad_state()->listeners) {
      if (std::find(told.begin(), told.end(), entry.listener) == told.end()) {
        told.push_back(entry.listener);
        entry.listener->on_backward_abort();
      }
    }
  }
}

}  // namespace brigade::autograd
