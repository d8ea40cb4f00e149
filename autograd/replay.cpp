#include "autograd/replay.h"

#include <algorithm>
#include <utility>

#include "core/context.h"
#include "core/error.h"

namespace brigade::autograd {
namespace {

/// Visits of a key. The rehearsal takes from the system whatever the step needs (memory, library
/// handles), which on a GPU may not happen while a graph is captured.
constexpr int kRehearsal = 1;
constexpr int kRecording = 2;

}  // namespace

Replay::Entry& Replay::entry_of(const Key& key) {
  std::size_t moves = 0;
  for (const Variable& parameter : parameters_) {
    moves += parameter.grad_state()->moves;
  }
  if (moves != std::exchange(moves_, moves)) {
    entries_.clear();
  }
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const auto& entry) { return entry->key == key; });
  if (found != entries_.end()) {
    return **found;
  }
  entries_.push_back(std::make_unique<Entry>());
  entries_.back()->key = key;
  return *entries_.back();
}

Tensor Replay::forward(const Key& key, const std::function<Variable()>& compute) {
  current_ = &entry_of(key);
  Entry& entry = *current_;
  ++entry.visits;
  if (entry.visits > kRecording) {
    ++replays_;
    entry.forward->replay();
    return entry.value;
  }
  const UseReservedMemory reserved(device_);
  if (entry.visits == kRehearsal) {
    entry.loss = compute();
    return entry.loss.data();
  }
  for (const Variable& parameter : parameters_) {
    const auto& hooks = parameter.grad_state()->hooks;
    BRIGADE_CHECK(!hooks || hooks->list.empty(), "replay: parameter '", parameter.name(),
                  "' has a hook, which a replay would not call; remove it, or do not replay");
  }
  entry.forward = record(device_, [&] { entry.loss = compute(); });
  entry.value = entry.loss.data();
  return entry.value;
}

void Replay::backward() {
  BRIGADE_CHECK(current_ != nullptr, "replay: backward without a forward before it");
  Entry& entry = *std::exchange(current_, nullptr);
  if (entry.visits > kRecording) {
    entry.backward->replay();
    mark_gradients(entry);
    return;
  }
  const UseReservedMemory reserved(device_);
  const Variable loss = std::exchange(entry.loss, Variable());
  const auto run = [&] { autograd::backward(loss, {.seed = entry.key.seed}); };
  if (entry.visits == kRehearsal) {
    run();
  } else {
    entry.backward = record(device_, run);
    note_gradients(entry);
  }
}

void Replay::note_gradients(Entry& entry) const {
  for (const Variable& parameter : parameters_) {
    entry.synchronized.push_back(parameter.grad_state()->synchronized);
  }
}

/// What backward has left in the gradients' states beside the numbers.
void Replay::mark_gradients(const Entry& entry) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    GradState& state = *parameters_[i].grad_state();
    state.filled = true;
    state.synchronized = entry.synchronized[i];
  }
}

}  // namespace brigade::autograd
