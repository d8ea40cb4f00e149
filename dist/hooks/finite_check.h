#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "autograd/variable.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// Stops a rank at the first gradient that is NaN or infinite, before a collective spreads it to
/// all ranks: in all modes and with all hooks.
///
/// The Error names step, bucket and parameter; run() adds the rank and ends the job. In mode naive,
/// which sends the first layer's gradients first, the parameter says little: NaN in one layer
/// spoils the gradients of all layers before it. Costs one pass over the gradients in memory. On a
/// GPU the host also waits until each bucket is computed, so nothing overlaps: use it to find a
/// fault.
class FiniteCheck {
 public:
  /// Checks each gradient of `parameters` before `comm` sends it. `comm` must outlive this.
  FiniteCheck(Communicator& comm, const std::vector<autograd::Variable>& parameters);
  ~FiniteCheck() { comm_.remove_wrap(); }
  FiniteCheck(const FiniteCheck&) = delete;
  FiniteCheck& operator=(const FiniteCheck&) = delete;

  /// Steps count from 1. Before each: what an Error calls it.
  void begin_step(std::int64_t step) { step_ = step; }

 private:
  void check(const Tensor& payload, std::string_view label) const;

  Communicator& comm_;
  std::vector<autograd::Variable> parameters_;  // the last first
  std::int64_t step_ = 1;
};

}  // namespace brigade::dist
