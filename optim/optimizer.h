#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autograd/variable.h"
#include "core/io/named_tensors.h"
#include "core/share.h"
#include "optim/flat_spans.h"

namespace brigade::optim {

/// What has parameters to train: an nn::Module, a dist::DataParallel.
template <class Model>
concept HasParameters = requires(const Model& model) {
  { model.parameters() } -> std::convertible_to<std::vector<autograd::Variable>>;
};

/// What a kernel updates of one span: all of it, unless some of its parameters are left alone in
/// this step, or other ranks update the rest.
struct ParamRange {
  std::size_t span = 0;    ///< which
  std::int64_t begin = 0;  ///< its first element in the span
  std::int64_t step = 0;   ///< how often its parameters have been updated, this time included
  double lr = 0.0, weight_decay = 0.0;
  Tensor data;
  Tensor grad;
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

/// Ranks that divide an optimizer's work and its state among them; dist/sharding makes one.
struct Shards {
  /// This rank's share of a span; nothing as long as each rank has all of it.
  std::function<std::optional<Share>(std::int64_t numel)> mine;
  std::function<void(const Tensor&)> all_gather;  ///< copies every rank's share of a span to all
  std::function<void(const Tensor&)> sum;         ///< in place, over the ranks
  std::function<void()> updated;  ///< ends step(): the weights of other shares are still old
};

/// Updates parameters from their gradients. A weight that is in the list twice (two layers share
/// it) is updated once; one that is frozen is left alone.
///
/// Parameters may move in memory between steps (dist/ddp/grad_averager.h moves them into buckets,
/// and once more when it rebuilds these): the next step finds the new spans and moves the state
/// after them, bit by bit.
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

  std::int64_t steps_done() const { return steps_done_; }
  /// What is kept from one step to the next: "exp_avg.0.weight" in the shape of the weight, and
  /// "updates", i64, how often each parameter has been updated. That is a copy, the others are
  /// views that are valid until the next step(). Where ranks share, all are complete copies.
  NamedTensors state();
  /// Continues from such a state. UsageError for the state of another optimizer or network.
  void load_state(const NamedTensors& saved);
  /// What this rank keeps. Memory is allocated when it is first needed: 0 before the first step().
  std::size_t state_bytes() const;

  /// What the next step() will update here: spans whose parameters have a gradient.
  std::vector<ParamRange> parts();

 protected:
  /// `state_names`: of the numbers to keep per weight from one step to the next, as PyTorch calls
  /// them. They begin as 0. Error: a rate is negative.
  Optimizer(const std::vector<autograd::Variable>& parameters, std::vector<std::string> state_names,
            const Rates& rates);

  virtual void update(const ParamRange& part) = 0;

  /// State number `slot` of the weights in `part`, in their layout; padding stays 0. Never shares
  /// memory with a gradient. Valid until the next step().
  Tensor state(std::size_t slot, const ParamRange& part) const;

 private:
  /// Parameters that adjoin in memory, and what is kept for them, in their layout.
  struct Stretch {
    FlatSpan members;
    std::vector<std::int64_t> offsets;  // of each member, in elements
    std::int64_t numel = 0;
    Share mine;                 // all of it, or this rank's
    bool divided = false;       // the same on all ranks, though one may have all of it
    std::vector<Tensor> state;  // by slot: of `mine`
  };
  Stretch make_stretch(const FlatSpan& members) const;
  void check_not_in_flight() const;
  void check_gradients(LocalGradients local) const;
  bool takes_part(std::size_t index) const;
  double weight_decay_of(std::size_t index) const;
  void count_update(std::size_t index);
  void find_spans();
  void follow_moved_parameters();
  std::vector<Tensor> by_parameter(const std::vector<Stretch>& stretches, std::size_t slot) const;
  static void keep(std::size_t slot, const Stretch& stretch,
                   const std::function<Tensor(std::size_t)>& by_parameter);
  void append_parts(std::size_t span, std::vector<ParamRange>& result) const;

  Rates rates_;
  std::vector<autograd::Variable> parameters_;
  std::vector<autograd::Variable> frozen_;  // of those given, for a complaint
  std::optional<Shards> shards_;
  // By their first parameters: what is added up over them must be the same on all ranks, whose
  // addresses differ.
  std::vector<Stretch> stretches_;
  std::vector<std::size_t> storage_versions_;  // of each parameter when these were found
  std::vector<std::string> state_names_;       // by slot
  std::vector<ParamRange> parts_of_step_;      // empty between steps: only its memory is kept
  std::vector<std::int64_t> updates_;          // per parameter: one that was left alone is behind
  std::int64_t steps_done_ = 0;
  bool in_flight_ = false;
};

}  // namespace brigade::optim
