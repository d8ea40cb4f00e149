#pragma once

#include <string_view>
#include <vector>

#include "autograd/variable.h"
#include "dist/comm/communicator.h"

namespace brigade::dist {

/// What a parameter means that the loss of a synchronised backward does not depend on.
enum class UnusedPolicy {
  /// A mistake: an error that names it.
  refuse,
  /// Part of the model: every synchronised backward finds out which ones no rank has used. Costs a
  /// small all-reduce, and on a GPU the host waits for it.
  find,
  /// Likewise, but the same ones every time: found out in the first synchronised backward, and a
  /// backward that uses others is an error that names them.
  find_once
};
std::string_view to_string(UnusedPolicy policy);

/// Puts into the coming sum what the gradient of `parameter` holds without a backward: the
/// gradients of earlier backwards inside no_sync(); a gradient that is the average already, so that
/// it comes out as it was; or zero.
void contribute_without_backward(const autograd::Variable& parameter);

/// Lets a synchronised backward pass over parameters that it does not reach.
///
/// A parameter is *used* on a rank if a backward since the last synchronisation has reached it,
/// micro-batches inside no_sync() included. Ranks may differ in what they use; all-reduces must not
/// differ. So at the beginning of backward, when the engine has walked the graph and no node has
/// run, every parameter that will get no gradient contributes what it has and counts as ready: no
/// bucket waits for it. At the same time a bitmap (one number per parameter, 1 for used) starts
/// travelling, which is waited for at the end. What is used anywhere has the average then. What is
/// used nowhere keeps its gradient, bit for bit; without one since zero_grad it is marked
/// GradState::unused, and the optimizer leaves it alone (PyTorch: grad = None).
class UnusedParameters {
 public:
  /// `policy` find or find_once. The references must outlive this.
  UnusedParameters(const std::vector<autograd::Variable>& parameters, Communicator& comm,
                   UnusedPolicy policy);

  /// A rank without samples mirrors the others' backward (GradAverager::shadow_backward): it uses
  /// nothing, and that says nothing about the graph.
  enum class Pass : bool { backward, mirrored };

  /// A synchronised backward begins. Returns the parameters it does not reach, whose contributions
  /// are in place now: to be reported as ready. Collective (find_once: the first time). Errors with
  /// find_once: this rank uses other parameters than the first time; the first time is mirrored.
  std::vector<std::size_t> begin(Pass pass);

  /// All gradients are summed.
  void end();

  /// The backward was abandoned.
  void reset() noexcept;

 private:
  bool used(std::size_t index) const;
  void exchange();
  void check_same_use() const;
  void read_exchange();

  const std::vector<autograd::Variable>& parameters_;
  Communicator& comm_;
  UnusedPolicy policy_;

  // Of one backward; with find_once these stay as they were in the first.
  bool known_ = false;
  std::vector<bool> here_;      // used on this rank
  std::vector<bool> anywhere_;  // used on some rank
  Tensor bitmap_;               // [parameters], on their device
  Work work_;
  std::vector<bool> empty_;     // had no gradient: the zeros it contributed are not one
  std::vector<Tensor> before_;  // average of an earlier backward, should it be used nowhere
};

}  // namespace brigade::dist
