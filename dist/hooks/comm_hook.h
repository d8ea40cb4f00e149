#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <string>

#include "autograd/variable.h"
#include "core/error.h"
#include "dist/comm/communicator.h"
#include "dist/ddp/bucket.h"

namespace brigade::dist {

/// How the gradients of a bucket, or of a piece of it, are brought together: the seam for
/// compression (PyTorch's DDP communication hooks, torch.distributed.algorithms.ddp_comm_hooks). A
/// hook serves one GradAverager at a time, because it may remember something about each bucket.
class CommHook {
 public:
  virtual ~CommHook() = default;

  /// For people, and for comparing the ranks: "none", "bf16", "powersgd:rank=4".
  virtual std::string name() const = 0;

  /// Told the buckets before the first of them is reduced, and again should they change: the place
  /// to allocate, so that no step has to. Forgets what it knew of earlier buckets: when they are
  /// rebuilt after the first step, what that one step left out is lost. With no buckets at all: let
  /// go of every gradient, because they are about to be allocated or moved. On the rank's own
  /// thread.
  /// Error or UsageError for buckets that the hook cannot serve.
  virtual void prepare(std::span<const autograd::Variable> /*parameters*/,
                       std::span<const Bucket> /*buckets*/, Communicator& /*comm*/) {}

  /// Starts piece.grads := the sum over ranks, or the hook's approximation of it; the same bits on
  /// every rank. Called on the thread of backward() in an order that is the same on all ranks;
  /// returns at once. `index` is the place of the piece's bucket, for hooks that keep something per
  /// bucket.
  virtual Work all_reduce(std::size_t index, const Chunk& piece, Communicator& comm) = 0;

  /// It remembers nothing, so several DataParallels may have it.
  virtual bool may_be_shared() const { return false; }

 private:
  friend class HookUse;
  std::atomic<bool> used_ = false;  // ranks may be threads
};

/// A GradAverager's hold on its hook.
class HookUse {
 public:
  explicit HookUse(CommHook& hook) : hook_(hook) {
    BRIGADE_CHECK(hook.may_be_shared() || !hook.used_.exchange(true), "data parallel: the hook ",
                  hook.name(), " remembers another DataParallel's buckets; make one for each");
  }
  ~HookUse() { hook_.used_ = false; }
  HookUse(const HookUse&) = delete;
  HookUse& operator=(const HookUse&) = delete;

 private:
  CommHook& hook_;
};

/// No compression: the gradients as they are.
class PlainAllReduce final : public CommHook {
 public:
  std::string name() const override { return "none"; }
  Work all_reduce(std::size_t /*index*/, const Chunk& piece, Communicator& comm) override {
    return comm.all_reduce(piece.grads, piece.label);
  }
  bool may_be_shared() const override { return true; }
};

}  // namespace brigade::dist
