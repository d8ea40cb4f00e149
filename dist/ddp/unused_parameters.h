#pragma once

#include <vector>

#include "autograd/variable.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// Puts into the coming sum what the gradient of `parameter` holds without a backward: the
/// gradients of earlier backwards inside no_sync(); a gradient that is the average already, so that
/// it comes out as it was; or zero.
void contribute_without_backward(const autograd::Variable& parameter);

/// Supports parameters that a synchronised backward does not reach.
///
/// A parameter is *used* on a rank if a backward since the last synchronisation has reached it,
/// micro-batches inside no_sync() included. Ranks may differ in what they use; all-reduces must not
/// differ. So at the beginning of backward, when the engine has walked the graph and no node has
/// run, every parameter that will get no gradient contributes what it has and counts as ready: no
/// bucket waits for it. At the same time a bitmap (one number per parameter, 1 for used) starts
/// travelling, which is waited for at the end. What is used anywhere has the average then. What is
/// used nowhere keeps its gradient, bit for bit; without one since zero_grad it is marked
/// GradState::unused(), and the optimizer leaves it alone (PyTorch: grad = None).
class UnusedParameters {
 public:
  /// The references must outlive it.
  UnusedParameters(const std::vector<autograd::Variable>& parameters, Communicator& comm)
      : parameters_(parameters), comm_(comm) {}

  /// A synchronised backward begins, or a rank without samples shadows one, which uses nothing.
  /// Returns the parameters it does not reach, whose contributions are in place now: to be reported
  /// as ready. Collective.
  std::vector<std::size_t> begin();

  /// All gradients are summed.
  void end();

  /// The backward was abandoned.
  void reset() noexcept { before_.clear(); }

 private:
  const std::vector<autograd::Variable>& parameters_;
  Communicator& comm_;

  // Of one backward.
  Tensor bitmap_;  // [parameters], on their device: 1 where a parameter is used on this rank
  Work work_;
  std::vector<bool> empty_;     // had no gradient: the zeros it contributed are not one
  std::vector<Tensor> before_;  // average of an earlier backward, should it be used nowhere
};

}  // namespace brigade::dist
