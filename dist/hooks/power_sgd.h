#pragma once

#include <cstdint>

#include "dist/ddp/comm_hook.h"

namespace brigade::dist {

/// PowerSGD: sends the gradient of a matrix as the product of two thin matrices (Vogels,
/// Karimireddy and Jaggi, NeurIPS 2019, arXiv:1905.13727).
///
/// For a parameter of shape [n, m] (more dimensions: [n, all others]) and rank R, let M be this
/// rank's gradient and E the part of earlier gradients that it has not sent yet. The steps are
/// algorithm 1 of the paper inside algorithm 2:
///
///   M := M + E                  error feedback: adds what earlier steps left out
///   P := sum over ranks of M Q  [n, R]; Q is from the previous step, at first random
///   P := orthonormal columns    modified Gram-Schmidt; P is the same on all ranks
///   Q := Mᵀ P, E := M - P Qᵀ    E is local: the part of M outside the span of P
///   Q := sum over ranks of Q    [m, R]
///   M := P Qᵀ                   = P Pᵀ (sum of the M), the best approximation in the span of P
///
/// Gradients already contain the factor 1 / ranks, so these sums are the paper's averages. Reusing
/// Q makes consecutive steps a power iteration: P turns towards the largest singular vectors. A
/// rank sends (n + m) R numbers instead of n m. Parameters of one dimension, and matrices for which
/// this is not less, are summed without compression, together with the P of their bucket.
///
/// All ranks compute the same bits from the same sums, if their GEMMs are the same (one kind of CPU
/// or GPU). CPU and GPU; f32 and f64.
class PowerSgd final : public BucketHook {
 public:
  explicit PowerSgd(std::int64_t rank);
  std::string name() const override;

 protected:
  Reduction make_reduction(std::span<const autograd::Variable> parameters, const Bucket& bucket,
                           const Communicator& comm) override;

 private:
  std::int64_t rank_;
};

}  // namespace brigade::dist
