#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dist/hooks/comm_hook.h"

namespace brigade::dist {

/// PowerSGD: the gradient of a matrix travels as a product of two thin ones (Vogels, Karimireddy &
/// Jaggi, NeurIPS 2019, arXiv:1905.13727).
///
/// For a parameter of shape [n, m] (more dimensions: [n, all others]) and rank R, with M the
/// gradient of this rank and E what it has not sent yet, algorithm 1 inside algorithm 2:
///
///   M := M + E                  error feedback: what was left out comes again
///   P := sum over ranks of M Q  [n, R]; Q is the one of the step before, at first random
///   P := orthonormal columns    modified Gram-Schmidt; P is the same on all ranks
///   Q := Mᵀ P, E := M - P Qᵀ    E is this rank's own: what of its M does not lie in P's span
///   Q := sum over ranks of Q    [m, R]
///   M := P Qᵀ                   = P Pᵀ (sum of the M), the best approximation within P's span
///
/// Gradients already carry the factor 1 / ranks, so the sums are the paper's averages. Keeping Q
/// makes the steps one long power iteration: the span turns towards the largest singular vectors.
/// A rank sends (n + m) R numbers for n m. Parameters of one dimension, and matrices for which that
/// is no less, are summed as they are; they travel with the P of their bucket.
///
/// Only sums are exchanged, and every rank then computes the same: same bits on all ranks, given
/// that their GEMMs are the same (one kind of CPU or GPU). CPU and GPU; f32 and f64.
class PowerSgd final : public CommHook {
 public:
  explicit PowerSgd(std::int64_t rank);

  std::string name() const override;
  void prepare(std::span<const autograd::Variable> parameters, std::span<const Bucket> buckets,
               Communicator& comm) override;
  Work all_reduce(std::size_t index, const Chunk& piece, Communicator& comm) override;

 private:
  struct State;

  std::int64_t rank_;
  std::vector<std::shared_ptr<State>> states_;  // one per bucket
};

}  // namespace brigade::dist
