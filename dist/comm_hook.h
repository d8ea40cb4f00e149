#pragma once

#include <cstddef>
#include <string>

#include "dist/bucket.h"
#include "dist/communicator.h"

namespace brigade::dist {

/// How the gradients of one bucket are brought together: the seam for compression (PyTorch's DDP
/// communication hooks, torch.distributed.algorithms.ddp_comm_hooks).
class CommHook {
 public:
  virtual ~CommHook() = default;

  /// For people: "none", "bf16".
  virtual std::string name() const = 0;

  /// Starts bucket.grads := the sum over ranks, or the hook's approximation of it; the same bits on
  /// every rank. Called on the thread of backward() in bucket order, the same on all ranks; returns
  /// at once. `index` is the bucket's place, for hooks that keep something per bucket.
  virtual Work all_reduce(std::size_t index, const Bucket& bucket, Communicator& comm) = 0;
};

/// No compression: the bucket as it is.
class PlainAllReduce final : public CommHook {
 public:
  std::string name() const override { return "none"; }
  Work all_reduce(std::size_t /*index*/, const Bucket& bucket, Communicator& comm) override {
    Work last;
    for (const Piece& piece : bucket.pieces) {
      last = comm.all_reduce(piece.grads, piece.label);
    }
    // The communicator works them off one after the other, so the last one's Work stands for the
    // bucket, and rethrows what any of them threw: behind a failed collective the rest of the queue
    // fails too (core/stream.h).
    return last;
  }
};

}  // namespace brigade::dist
