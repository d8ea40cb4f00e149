#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autograd/variable.h"
#include "core/io/named_tensors.h"
#include "optim/flat_state.h"

namespace brigade::optim {

/// What a kernel updates of one span: all of it, unless some of its parameters are left alone in
/// this step, or other ranks update the rest.
struct ParamRange {
  const StateSpan* span = nullptr;
  std::int64_t begin = 0;  ///< its first element in the span
  std::int64_t step = 0;   ///< how often its parameters have been updated, this time included
  double lr = 0.0, weight_decay = 0.0;
  Tensor data, grad;
};

/// What all optimizers have.
struct Rates {
  double lr = 0.0;
  double weight_decay = 0.0;
  /// Biases and the weights of norms, whose shape has one dimension, do not decay.
  bool decay_matrices_only = false;
};

/// Whether step() may use gradients that this rank has not averaged with the others.
enum class LocalGradients : bool { refuse, allow };

/// What zero_grad() does with the memory of gradients.
enum class GradMemory : bool { keep, discard };

/// Updates parameters from their gradients. A weight that is in the list twice (two layers share
/// it) is updated once; one that is frozen is left alone.
///
/// Parameters may move in memory between steps (dist/ddp/grad_averager.h moves them into buckets,
/// and once more when it rebuilds these): the next step moves the state after them.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update; one kernel per flat span. A parameter that all ranks agree is unused
  /// (GradState::unused()) keeps its weights and its state as they are, and so does a frozen one.
  /// Errors: a parameter has no gradient (backward was not called, or does not reach it), or one
  /// that was never synchronised over the ranks (only backwards inside no_sync() since zero_grad),
  /// unless `local` allows that: the ranks' weights then drift apart. A parameter that was frozen
  /// when this was made trains now. Buckets are updated in flight.
  void step(LocalGradients local = LocalGradients::refuse);

  /// From now on keeps and updates only this rank's share of every span. All ranks then call
  /// step(), parts(), state() and load_state() at the same places. begin_step() is an Error.
  void shard(Shards shards);
  /// Adds up over the ranks what each has computed from its parts(). Nothing happens without
  /// shards.
  void sum_over_shards(const Tensor& values) const;

  /// @name step() in parts, each as soon as its gradients are there
  /// (dist/overlap/bucket_optimizer.h)
  /// @{
  /// Begins a step: the parts to come belong to it. From now until end_bucket_updates(), step() and
  /// clip_grad_norm() are refused: gradients may have been used already.
  void begin_step();
  /// What updates the parameters whose gradients lie in `grads`, the flat gradients of a bucket,
  /// and are complete; counted as an update now. To be executed once, on any thread, when the
  /// gradients are final. Reads and writes this Optimizer's state without a lock: until it has been
  /// executed this must live, and neither step() nor begin_step() may be called. Error: no
  /// parameter that learns has its gradient there.
  std::function<void()> update_of(const Tensor& grads);
  /// No parts are in flight any more; step() works again.
  void end_bucket_updates() noexcept { in_flight_ = false; }
  /// @}

  /// Forgets all gradients; their memory stays as it is, or the system has it until backward writes
  /// them again (Tensor::discard), so that activations can use it. Error for `discard` while
  /// buckets are updated in flight.
  void zero_grad(GradMemory memory = GradMemory::keep);

  double lr() const { return rates_.lr; }
  /// Of the steps that begin from now on.
  void set_lr(double lr);

  /// What is kept from one step to the next: "exp_avg.0.weight" in the shape of the weight, and
  /// "updates", i64, how often each parameter has been updated. That is a copy, the others are
  /// views that are valid until the next step(). Where ranks share, all are complete copies.
  /// Error: two parameters have one name.
  NamedTensors state();
  /// Continues from such a state. UsageError for the state of another optimizer or network.
  void load_state(const NamedTensors& saved);
  /// What this rank keeps. Memory is allocated when it is first needed: 0 before the first step().
  std::size_t state_bytes() const { return state_.nbytes(); }

  /// What the next step() will update here: spans whose parameters have a gradient. Valid until
  /// parameters have moved and the spans are found again.
  std::vector<ParamRange> parts();

 protected:
  /// `state_names`: of the numbers to keep per weight from one step to the next, as PyTorch calls
  /// them. They begin as 0. Errors: a rate is negative; a parameter was computed.
  Optimizer(const std::vector<autograd::Variable>& parameters, std::vector<std::string> state_names,
            const Rates& rates);

  virtual void update(const ParamRange& part) = 0;

  /// State number `slot` of the weights in `part`, in their layout; padding stays 0. Never shares
  /// memory with a gradient. Valid until the next step().
  Tensor state(std::size_t slot, const ParamRange& part) const;

 private:
  void check_not_in_flight() const;
  void check_gradients(LocalGradients local) const;
  bool takes_part(std::size_t index) const;
  void append_parts(const StateSpan& span, std::vector<ParamRange>& result) const;

  Rates rates_;
  std::vector<autograd::Variable> parameters_;
  std::vector<autograd::Variable> frozen_;  // of those given, for a complaint
  std::vector<std::string> state_names_;    // by slot
  FlatState state_;
  std::vector<std::int64_t> updates_;  // per parameter: one that was left alone is behind
  bool in_flight_ = false;
};

}  // namespace brigade::optim
