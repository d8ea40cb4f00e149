#include "autograd/replay.h"

#include <algorithm>
#include <utility>

#include "core/context.h"
#include "core/error.h"

namespace brigade::autograd {

Replay::Replay(std::vector<Variable> parameters, Device device)
    : parameters_(std::move(parameters)),
      device_(device),
      memory_(Context::current().make_reserved_memory(device)) {}

void Replay::look_at_parameters() {
  layouts_.resize(parameters_.size());
  gradients_.resize(parameters_.size());
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
    if (now != layouts_[i]) {
      entries_.clear();
      layouts_[i] = now;
    }
    gradients_[i] = gradient_of(state);
    parameters_[i].wait_until_readable();  // a replayed layer would not
  }
}

void Replay::set_gradients(const std::vector<Gradient>& states) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    GradState& state = *parameters_[i].grad_state();
    state.filled = states[i].filled;
    state.synchronized = states[i].synchronized;
    state.updated = states[i].updated;
  }
}

Replay::Entry& Replay::entry_of(const Key& key) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry->key == key && entry->before == gradients_;
  });
  if (found != entries_.end()) {
    return **found;
  }
  if (entries_.size() == kMostKeys) {
    entries_.erase(entries_.begin());
  }
  entries_.push_back(std::make_unique<Entry>());
  entries_.back()->key = key;
  entries_.back()->before = gradients_;
  return *entries_.back();
}

// The rehearsal takes from the system whatever the step needs, memory and library handles, which on
// a GPU may not happen while a graph is captured. Between two steps all of `memory_` is free: the
// loss is copied out of it, so no step finds less there than its rehearsal did.
Tensor Replay::forward(const Key& key, const std::function<Variable()>& compute) {
  current_ = nullptr;
  look_at_parameters();
  Entry& entry = entry_of(key);
  if (entry.forward && entry.backward) {
    entry.forward->replay();
    ++replays_;
  } else if (std::exchange(entry.rehearsed, false)) {
    const UseReservedMemory reserved(memory_);
    entry.forward = record(device_, [&] {
      entry.loss = compute();
      entry.value.copy_from(entry.loss.data());
    });
  } else {
    entry.forward.reset();
    {
      const UseReservedMemory reserved(memory_);
      entry.loss = compute();
    }
    entry.value = entry.loss.data().clone();
  }
  current_ = &entry;
  return entry.value;
}

bool Replay::backward(const std::function<void()>& update) {
  BRIGADE_CHECK(current_ != nullptr, "replay: backward without a forward before it");
  Entry& entry = *std::exchange(current_, nullptr);
  BRIGADE_CHECK(entry.key.updates == static_cast<bool>(update),
                "replay: expected an update behind backward exactly if the key says so");
  if (entry.forward && entry.backward) {
    replay_backward(entry);
    return true;
  }
  const UseReservedMemory reserved(memory_);
  const Variable loss = std::exchange(entry.loss, Variable());
  bool listeners_know = true;  // of a failure: while backward runs the engine tells them
  const auto run = [&] {
    autograd::backward(loss, {.seed = entry.key.seed});
    listeners_know = false;
    if (update) {
      update();
    }
  };
  if (entry.forward) {
    record_backward(entry, run, listeners_know);
  } else {
    run();
    entry.rehearsed = true;
  }
  return false;
}

// A recorded forward is of use with its backward only.
void Replay::record_backward(Entry& entry, const std::function<void()>& run,
                             const bool& listeners_know) {
  std::unique_ptr<Recording> forward = std::move(entry.forward);
  try {
    entry.backward = record(device_, run);
  } catch (...) {
    if (device_.is_cuda()) {
      set_gradients(entry.before);  // nothing of what was captured has been executed
    }
    if (!listeners_know) {
      tell_listeners_of_failure();
    }
    throw;
  }
  entry.forward = std::move(forward);
  entry.after.clear();
  for (const Variable& parameter : parameters_) {
    entry.after.push_back(gradient_of(*parameter.grad_state()));
  }
}

void Replay::replay_backward(const Entry& entry) const {
  try {
    entry.backward->replay();
  } catch (...) {
    tell_listeners_of_failure();
    throw;
  }
  set_gradients(entry.after);
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
