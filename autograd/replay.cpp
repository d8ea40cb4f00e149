#include "autograd/replay.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/runtime/context.h"

namespace brigade::autograd {

Replay::Replay(std::vector<Variable> parameters, Device device)
    : parameters_(std::move(parameters)),
      device_(device),
      memory_(Context::current().make_reserved_memory(device)) {
  for (const Variable& parameter : parameters_) {
    BRIGADE_CHECK(parameter.grad_state() != nullptr,
                  "replay: expected parameters, got a variable that never required a gradient");
  }
}

void Replay::look_at_parameters() {
  layouts_.resize(parameters_.size());
  gradients_.resize(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    GradState& state = *parameters_[i].grad_state();
    BRIGADE_CHECK(!state.hooks || state.hooks->list.empty(), "replay: parameter '",
                  parameters_[i].name(),
                  "' has a hook, which a replay would not call; remove it, or do not replay");
    Layout now{.moves = state.moves,
               .attached = state.next_hook_id,
               .listeners = state.listeners.size(),
               .frozen = state.frozen,
               .grad_scale = state.grad_scale};
    for (const GradState::Listener& entry : state.listeners) {
      now.generations += entry.listener->generation();
    }
    if (now != layouts_[i]) {
      entries_.clear();
      layouts_[i] = now;
    }
    gradients_[i] = gradient_of(state);
    state.loan.call_in();                  // a replayed kernel writes to it and asks nobody
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

Replay::Entry& Replay::entry_of(const Key& key, bool updates) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry->key == key && entry->updates == updates && entry->before == gradients_;
  });
  if (found != entries_.end()) {
    return **found;
  }
  if (entries_.size() == kMostKeys) {
    entries_.erase(entries_.begin());
  }
  entries_.push_back(std::make_unique<Entry>());
  Entry& entry = *entries_.back();
  entry.key = key;
  entry.updates = updates;
  entry.before = gradients_;
  return entry;
}

// The rehearsal takes from the system whatever the step needs, memory and library handles. On a GPU
// most of that may not happen while a graph is captured.
Replay::Outcome Replay::step(const Key& key, const Work& work) {
  look_at_parameters();
  Entry& entry = entry_of(key, static_cast<bool>(work.update));
  entry.outcome.replayed = entry.recording != nullptr;
  if (entry.recording) {
    replay(entry);
    ++replays_;
  } else if (std::exchange(entry.rehearsed, false)) {
    record_step(entry, work);
  } else {
    Part part = Part::forward;
    execute(entry, work, part);
    entry.rehearsed = true;
  }
  return entry.outcome;
}

// Between two steps all of `memory_` is free: the loss is copied out of it, so no step finds less
// there than its rehearsal did.
void Replay::execute(Entry& entry, const Work& work, Part& part) {
  Stream& stream = compute_stream(device_);
  const auto take_time = [&stream](Event& event) {
    repeatable(stream, [&stream, &event] { event = stream.record_time(); });
  };
  Outcome& outcome = entry.outcome;
  Variable loss;
  {
    const UseReservedMemory reserved(memory_);
    loss = work.forward();
  }
  if (!outcome.loss.defined()) {
    outcome.loss = Tensor::empty_like(loss.data());
  }
  outcome.loss.copy_from(loss.data());
  take_time(outcome.forward_done);

  const UseReservedMemory reserved(memory_);
  part = Part::backward;
  autograd::backward(loss, {.seed = entry.key.seed});
  part = Part::update;
  take_time(outcome.backward_done);
  if (work.update) {
    work.update();
  }
}

void Replay::record_step(Entry& entry, const Work& work) {
  Part part = Part::forward;
  try {
    entry.recording = record(device_, [&] { execute(entry, work, part); });
  } catch (...) {
    if (device_.is_cuda()) {
      set_gradients(entry.before);  // nothing of what was captured has been executed
    }
    if (part == Part::update) {  // of a backward that fails the engine tells them
      tell_listeners_of_failure();
    }
    throw;
  }
  entry.after.clear();
  for (const Variable& parameter : parameters_) {
    entry.after.push_back(gradient_of(*parameter.grad_state()));
  }
}

void Replay::replay(const Entry& entry) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (entry.after[i].updated && !entry.before[i].updated) {
      // As where it was recorded (leaf_destination); also when it fails, perhaps behind an update.
      ++parameters_[i].grad_state()->updates;
    }
  }
  try {
    entry.recording->replay();
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
