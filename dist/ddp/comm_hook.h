#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/variable.h"
#include "core/error.h"
#include "core/io/named_tensors.h"
#include "dist/comm/communicator.h"
#include "dist/ddp/bucket.h"

namespace brigade::dist {

/// Replaces the all-reduce of a bucket, or of a chunk of it, for example to compress gradients
/// (PyTorch: torch.distributed.algorithms.ddp_comm_hooks). A hook belongs to one DataParallel at a
/// time, because it may keep state for each bucket.
class CommHook {
 public:
  virtual ~CommHook() = default;

  /// "none", "bf16", "powersgd:rank=4". Printed, and compared across ranks.
  virtual std::string name() const = 0;

  /// Called before the first bucket is reduced, and again when the buckets change. Allocates here,
  /// so that no step has to. Drops the state of earlier buckets: a rebuild after the first backward
  /// loses error feedback, including what was loaded from a checkpoint of other buckets. Without
  /// buckets: releases all references to gradients, because they are about to move. Runs on the
  /// rank's own thread. Error or UsageError for buckets that the hook cannot serve.
  virtual void prepare(std::span<const autograd::Variable> /*parameters*/,
                       std::span<const Bucket> /*buckets*/, Communicator& /*comm*/) {}

  /// A backward is about to begin, maybe inside no_sync(). Error if this rank's gradients are not
  /// such that more can be added to them.
  virtual void backward_begins() {}

  /// Starts `grads` := the sum over ranks, or the hook's approximation of it; the same bits on
  /// every rank. `grads` is bucket number `bucket`, or a chunk of it (dist/overlap/
  /// priority_reducer.h); `label` names it in time lines. Called on the thread of backward() in an
  /// order that is the same on all ranks; returns at once.
  virtual Work all_reduce(std::size_t bucket, const Tensor& grads, std::string_view label,
                          Communicator& comm) = 0;

  /// What the hook keeps from one step to the next, by parameter, for checkpoints: views, valid
  /// until the buckets change. "error.0.weight" is this rank's own error feedback, of which the sum
  /// over the ranks matters; anything else is the same on all ranks.
  virtual NamedTensors state() const { return {}; }

  /// True if the hook keeps no state, so that several DataParallels may share it.
  virtual bool may_be_shared() const { return false; }

 private:
  friend class HookUse;
  std::atomic<bool> used_ = false;  // ranks may be threads
};

/// Reserves a hook for one DataParallel.
class HookUse {
 public:
  explicit HookUse(CommHook& hook) : hook_(hook) {
    BRIGADE_CHECK(
        hook.may_be_shared() || !hook.used_.exchange(true),
        "data parallel: the hook {} remembers another DataParallel's buckets; make one for each",
        hook.name());
  }
  ~HookUse() { hook_.used_ = false; }
  HookUse(const HookUse&) = delete;
  HookUse& operator=(const HookUse&) = delete;

 private:
  CommHook& hook_;
};

/// A hook that runs one function per bucket on the communication stream. The function keeps the
/// state of its bucket alive; `state` is the part of it that state() shows.
class BucketHook : public CommHook {
 public:
  struct Reduction {
    std::function<void(Collectives&)> run;
    NamedTensors state;
  };

  void prepare(std::span<const autograd::Variable> parameters, std::span<const Bucket> buckets,
               Communicator& comm) final {
    reductions_.clear();
    for (const Bucket& bucket : buckets) {
      reductions_.push_back(make_reduction(parameters, bucket, comm));
    }
  }
  Work all_reduce(std::size_t bucket, const Tensor& grads, std::string_view label,
                  Communicator& comm) final {
    return comm.enqueue(grads, label, reductions_.at(bucket).run);
  }
  NamedTensors state() const final {
    NamedTensors all;
    for (const Reduction& reduction : reductions_) {
      all.insert(all.end(), reduction.state.begin(), reduction.state.end());
    }
    return all;
  }

 protected:
  virtual Reduction make_reduction(std::span<const autograd::Variable> parameters,
                                   const Bucket& bucket, const Communicator& comm) = 0;

 private:
  std::vector<Reduction> reductions_;  // by bucket
};

/// No compression.
class PlainAllReduce final : public CommHook {
 public:
  std::string name() const override { return "none"; }
  Work all_reduce(std::size_t /*bucket*/, const Tensor& grads, std::string_view label,
                  Communicator& comm) override {
    return comm.all_reduce(grads, label);
  }
  bool may_be_shared() const override { return true; }
};

}  // namespace brigade::dist
