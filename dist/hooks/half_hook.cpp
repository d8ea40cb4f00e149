#include "dist/hooks/half_hook.h"

#include <memory>

#include "core/error.h"
#include "core/ops.h"
#include "core/share.h"

namespace brigade::dist {

namespace {

/// The 16-bit memory of one bucket, and the messages of its two exchanges.
struct State {
  State(const Tensor& bucket_grads, DType wire, const Communicator& comm)
      : grads(bucket_grads), narrow(Tensor::empty(grads.shape(), wire, grads.device())) {
    sum = share_of(grads, comm.rank(), comm.size());
    narrow_sum = share_of(narrow, comm.rank(), comm.size());
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (rank == comm.rank()) {
        versions.push_back(narrow_sum);
        continue;
      }
      versions.push_back(Tensor::empty(sum.shape(), wire, grads.device()));
      scatter_out.push_back({rank, share_of(narrow, rank, comm.size())});
      scatter_in.push_back({rank, versions.back()});
      gather_out.push_back({rank, narrow_sum});
      gather_in.push_back({rank, share_of(narrow, rank, comm.size())});
    }
  }

  /// On the communication stream.
  void run(Collectives& ranks) {
    ops::narrow(grads, narrow);
    ranks.exchange(scatter_out, scatter_in);
    for (std::size_t rank = 0; rank < versions.size(); ++rank) {
      ops::widen(versions[rank], {.alpha = 1.0, .beta = rank == 0 ? 0.0 : 1.0}, sum);
    }
    ops::narrow(sum, narrow_sum);
    ranks.exchange(gather_out, gather_in);
    ops::widen(narrow, {}, grads);
  }

  Tensor grads;                  // the bucket
  Tensor narrow;                 // the bucket in 16 bits
  Tensor sum;                    // this rank's chunk of `grads`
  Tensor narrow_sum;             // this rank's chunk of `narrow`
  std::vector<Tensor> versions;  // this rank's chunk as each rank has it, in rank order
  std::vector<Message> scatter_out, scatter_in, gather_out, gather_in;
};

}  // namespace

HalfHook::HalfHook(DType wire) : wire_(wire) {
  BRIGADE_CHECK(wire == DType::f16 || wire == DType::bf16,
                "half hook: expected f16 or bf16, got {}", wire);
}

std::string HalfHook::name() const {
  return wire_ == DType::f16 ? "fp16" : "bf16";
}

BucketHook::Reduction HalfHook::make_reduction(std::span<const autograd::Variable> /*parameters*/,
                                               const Bucket& bucket, const Communicator& comm) {
  BRIGADE_CHECK(bucket.grads.dtype() == DType::f32,
                "{} hook: expected gradients in f32, got {}; use --comm-hook none", name(),
                bucket.grads.dtype());
  const auto state = std::make_shared<State>(bucket.grads, wire_, comm);
  return {.run = [state](Collectives& ranks) { state->run(ranks); }, .state = {}};
}

}  // namespace brigade::dist
