#pragma once

#include <memory>
#include <vector>

#include "dist/hooks/comm_hook.h"

namespace brigade::dist {

/// Gradients travel in 16 bits, f16 or bf16, and are added up in float: half the bytes of an
/// all-reduce, and no more than two roundings, however many ranks there are.
///
/// A sum in 16 bits, as a library would do it, rounds at every addition; so this is a
/// reduce-scatter and an all-gather by exchange. Chunk r of the bucket belongs to rank r:
///
///   1. narrow the whole bucket; send each rank its chunk, receive everybody's version of mine
///   2. mine := sum of the versions, in float and in rank order, own one included
///   3. narrow the sum; send it to everybody, receive everybody's
///   4. widen all chunks into the bucket, mine too: the owner must not know better than the others
///
/// A rank sends 2 (N-1)/N of the bucket in 16 bits. Every element goes through the same roundings
/// and additions wherever it lies, so the result does not depend on the buckets' boundaries.
///
/// f16 (11 bits of precision, up to 65504): a gradient or a sum beyond that becomes infinite, and
/// below 6e-8 zero, as with PyTorch's fp16_compress_hook; there is no loss scaling. bf16 (8 bits)
/// has float's range. CPU and GPU; gradients in f32.
class HalfHook final : public CommHook {
 public:
  /// `wire`: f16 or bf16.
  explicit HalfHook(DType wire);

  std::string name() const override;
  void prepare(std::span<const autograd::Variable> parameters, std::span<const Bucket> buckets,
               Communicator& comm) override;
  Work all_reduce(std::size_t index, const Chunk& piece, Communicator& comm) override;

 private:
  struct Chunks;

  DType wire_;
  std::vector<std::shared_ptr<Chunks>> chunks_;  // one per bucket
};

}  // namespace brigade::dist
