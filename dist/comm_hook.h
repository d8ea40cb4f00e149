#pragma once

#include <cstddef>
#include <string>

#include "dist/bucket.h"
#include "dist/communicator.h"

namespace brigade::dist {

/// How the gradients of a bucket, or of a piece of it, are brought together: the seam for compression (PyTorch's DDP
/// communication hooks, torch.distributed.algorithms.ddp_comm_hooks).
class CommHook {
 public:
  virtual ~CommHook() = default;

  /// For people: "none", "bf16".
  virtual std::string name() const = 0;

  /// Starts piece.grads := the sum over ranks, or the hook's approximation of it; the same bits on
  /// every rank. Called on the thread of backward() in an order that is the same on all ranks;
  /// returns at once. `index` is the place of the piece's bucket, for hooks that keep something per
  /// bucket.
  virtual Work all_reduce(std::size_t index, const Piece& piece, Communicator& comm) = 0;
};

/// No compression: the gradients as they are.
class PlainAllReduce final : public CommHook {
 public:
  std::string name() const override { return "none"; }
  Work all_reduce(std::size_t /*index*/, const Piece& piece, Communicator& comm) override {
    return comm.all_reduce(piece.grads, piece.label);
  }
};

}  // namespace brigade::dist
