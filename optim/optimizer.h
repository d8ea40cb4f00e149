#pragma once

#include <cstdint>
#include <vector>

#include "autograd/variable.h"

namespace brigade::optim {

/// A stretch of memory in which parameters and gradients lie in the same order: one kernel updates
/// all of it.
struct FlatSpan {
  Tensor data;
  Tensor grad;
  std::vector<std::size_t> members;  ///< indices into the parameter list
  std::vector<std::size_t> offsets;  ///< of each member in `data` and `grad`, in bytes
};

/// Joins parameters whose data and gradients adjoin in memory, as they do in the buckets of
/// dist/data_parallel.h. A parameter that has no gradient memory yet gets some. In the worst case
/// one span per parameter.
std::vector<FlatSpan> flat_spans(const std::vector<autograd::Variable>& parameters);

/// Updates parameters from their gradients.
///
/// Parameters may move in memory between steps (dist/data_parallel.h moves them into buckets, and
/// once more when it rebuilds these): the next step finds the new spans and moves the state after
/// them, bit by bit.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update; one kernel per flat span. Errors: a parameter has no gradient (backward was not
  /// called, or does not reach it), or one that was never synchronised over the ranks (only
  /// backwards inside no_sync() since zero_grad).
  void step();

  /// Forgets all gradients without touching their memory.
  void zero_grad();

  std::int64_t steps_done() const { return steps_done_; }

 protected:
  /// `state_tensors`: numbers to keep per weight from one step to the next (momentum: 1, Adam: 2).
  /// They begin as 0.
  Optimizer(std::vector<autograd::Variable> parameters, std::size_t state_tensors);

  virtual void update(std::size_t span_index, const FlatSpan& span) = 0;

  /// State number `slot`, laid out as the span's weights; padding stays 0. Never shares memory with
  /// a gradient. Valid until the next step().
  Tensor& state(std::size_t slot, std::size_t span_index) { return state_[slot][span_index]; }

 private:
  bool parameters_moved() const;
  void follow_parameters();

  std::vector<autograd::Variable> parameters_;
  std::vector<FlatSpan> spans_;
  std::vector<std::vector<Tensor>> state_;  // [slot][span]
  std::int64_t steps_done_ = 0;
};

}  // namespace brigade::optim
