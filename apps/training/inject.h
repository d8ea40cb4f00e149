#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "apps/flags/fault_flag.h"
#include "dist/ddp/grad_averager.h"
#include "nn/module.h"

/// The failure lab: one fault put into one rank on purpose, to learn the line it ends in
/// (FAILURES.md). A fault goes in through what any user of the library can do, so what is seen is
/// the library's own behaviour.
namespace brigade::apps {

/// Puts the fault into the parts of a run as they are made. Without a fault, and on the ranks that
/// do not have it, every function returns what it is given. All ranks call them, so that a mistake
/// in the flag is a UsageError on every rank.
class FaultInjector {
 public:
  /// UsageError if there is no such rank, or none to tell the difference.
  FaultInjector(std::optional<Fault> fault, const dist::Communicator& comm);

  /// other_seed: another one.
  std::uint64_t weight_seed(std::uint64_t seed) const;

  /// skip_param: in the list stands a copy of the parameter that the model does not use, so it gets
  /// no gradient. UsageError if no parameter has the name.
  std::vector<autograd::Variable> parameters(std::vector<autograd::Variable> parameters) const;

  /// swap_buckets: a plan in which buckets, and parameters in them, stand in the opposite order.
  dist::DataParallelOptions synchronisation(
      dist::DataParallelOptions options, const std::vector<autograd::Variable>& parameters) const;

  /// wire_flip: the first collective that begins after the forward of the step has a bit flipped in
  /// its data. For the communicator of the gradients, before others wrap its collectives.
  /// UsageError on a GPU.
  void on_the_wire(dist::Communicator& comm, Device device) const;

  /// slow, nan, kill, stop, spin, bit_flip, wire_flip: `model` behind a layer that lingers, spoils
  /// its input, ends or stops the process, never returns, changes the first weight or arms the flip
  /// on the wire, but not while it is only evaluated. A step is `accum` forwards (a micro-batch in
  /// which the rank has no samples has none), and the run has `steps` of them; UsageError if it is
  /// shorter than that. `model` must outlive this, and this the result, which is always the same.
  nn::Module& around(nn::Module& model, std::int64_t accum, std::int64_t steps);

 private:
  bool has(FaultKind kind) const { return fault_ && fault_->kind == kind; }
  bool strikes(FaultKind kind) const { return has(kind) && mine_; }

  std::optional<Fault> fault_;
  bool mine_ = false;  // this rank has it
  // The rank's own thread sets it in a forward, and in a backward takes it away.
  std::shared_ptr<bool> wire_flip_due_ = std::make_shared<bool>(false);
  std::unique_ptr<nn::Module> around_;
};

}  // namespace brigade::apps
