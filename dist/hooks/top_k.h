#pragma once

#include "dist/ddp/comm_hook.h"

namespace brigade::dist {

/// Sends only the k gradients of largest magnitude in each bucket, with their places (Lin et al.,
/// Deep Gradient Compression, ICLR 2018, arXiv:1712.01887, without its momentum correction):
///
///   1. G := G + E          error feedback: E is what earlier steps left out
///   2. send the k largest |G| as (place, number) to everybody, receive everybody's
///   3. E := G without what was sent
///   4. G := sum of what all ranks sent, in rank order, 0 elsewhere
///
/// Without error feedback a gradient that is never among the largest is never applied, and training
/// ends in other weights (Stich, Cordonnier & Jaggi, NeurIPS 2018, arXiv:1809.07599).
///
/// k = ratio · numbers in the bucket, rounded up. A rank sends (N-1) k · 8 bytes where an
/// all-reduce sends 2 (N-1)/N of 4 bytes per number: that is less only if ratio < 1/N.
///
/// The selection needs the host, so CPU only; gradients in f32. NaN counts as larger than all
/// numbers: it is sent at once and shows in the loss.
class TopK final : public BucketHook {
 public:
  /// 0 < ratio <= 1
  explicit TopK(double ratio);
  std::string name() const override;

 protected:
  Reduction make_reduction(std::span<const autograd::Variable> parameters, const Bucket& bucket,
                           const Communicator& comm) override;

 private:
  double ratio_;
};

}  // namespace brigade::dist
