#pragma once

#include "dist/ddp/comm_hook.h"

namespace brigade::dist {

/// Sends gradients as f16 or bf16 and adds them in f32. This halves the bytes of an all-reduce, and
/// rounds each gradient twice at most, for any number of ranks. A library's sum in 16 bits would
/// round at every addition. The hook is a reduce-scatter and an all-gather made of exchanges; chunk
/// r of the bucket belongs to rank r:
///
///   1. Convert the bucket to 16 bits. Send each rank its chunk, receive all ranks' versions of the
///      own chunk.
///   2. own chunk := sum of all versions, in f32 and in rank order.
///   3. Convert the sum to 16 bits, send it to all ranks, receive their sums.
///   4. Convert all chunks to f32 in the bucket, the own one too: all ranks get the same bits.
///
/// A rank sends 2 (N-1)/N of the bucket in 16 bits. The result does not depend on the buckets'
/// boundaries, because every element has the same roundings and additions.
///
/// f16 has 11 bits of precision. Gradients and sums above 65504 become infinite, those below 6e-8
/// become zero, as in PyTorch's fp16_compress_hook. There is no loss scaling. bf16 has 8 bits of
/// precision and the range of f32. CPU and GPU; gradients in f32.
class HalfHook final : public BucketHook {
 public:
  /// `wire`: f16 or bf16.
  explicit HalfHook(DType wire);
  std::string name() const override;

 protected:
  Reduction make_reduction(std::span<const autograd::Variable> parameters, const Bucket& bucket,
                           const Communicator& comm) override;

 private:
  DType wire_;
};

}  // namespace brigade::dist
