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
};

/// Joins parameters whose data and gradients adjoin in memory, as they do in the buckets of
/// dist/data_parallel.h. A parameter that has no gradient memory yet gets some. In the worst case
/// one span per parameter.
std::vector<FlatSpan> flat_spans(const std::vector<autograd::Variable>& parameters);

/// Updates parameters from their gradients.
class Optimizer {
 public:
  explicit Optimizer(std::vector<autograd::Variable> parameters);
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
  virtual void update(std::size_t span_index, const FlatSpan& span) = 0;
  const std::vector<FlatSpan>& spans() const { return spans_; }

 private:
  std::vector<autograd::Variable> parameters_;
  std::vector<FlatSpan> spans_;
  std::int64_t steps_done_ = 0;
};

}  // namespace brigade::optim
