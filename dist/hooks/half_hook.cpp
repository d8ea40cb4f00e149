#include "dist/hooks/half_hook.h"

#include "core/error.h"
#include "core/ops.h"
#include "dist/algorithms/segments.h"

namespace brigade::dist {

/// The memory of one bucket on its way, and who gets which part of it.
struct HalfHook::Chunks {
  Chunks(const Tensor& grads, DType wire, const Communicator& comm)
      : grads_of_bucket(grads), narrow(Tensor::empty(grads.shape(), wire, grads.device())) {
    sum = chunk_of(grads, comm.size(), comm.rank());
    narrow_sum = chunk_of(narrow, comm.size(), comm.rank());
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (rank == comm.rank()) {
        versions.push_back(narrow_sum);
        continue;
      }
      versions.push_back(Tensor::empty(sum.shape(), wire, grads.device()));
      scatter_out.push_back({rank, chunk_of(narrow, comm.size(), rank)});
      scatter_in.push_back({rank, versions.back()});
      gather_out.push_back({rank, narrow_sum});
      gather_in.push_back({rank, chunk_of(narrow, comm.size(), rank)});
    }
  }

  /// On the communication stream.
  void run(Collectives& ranks) {
    ops::narrow(grads_of_bucket, narrow);
    ranks.exchange(scatter_out, scatter_in);
    for (std::size_t rank = 0; rank < versions.size(); ++rank) {
      ops::widen(versions[rank], {.alpha = 1.0, .beta = rank == 0 ? 0.0 : 1.0}, sum);
    }
    ops::narrow(sum, narrow_sum);
    ranks.exchange(gather_out, gather_in);
    ops::widen(narrow, {}, grads_of_bucket);
  }

  Tensor grads_of_bucket;
  Tensor narrow;                 // the whole bucket in 16 bits
  Tensor sum;                    // my chunk of the gradients
  Tensor narrow_sum;             // my chunk of `narrow`
  std::vector<Tensor> versions;  // my chunk as each rank has it, in rank order
  std::vector<Message> scatter_out, scatter_in, gather_out, gather_in;
};

HalfHook::HalfHook(DType wire) : wire_(wire) {
  BRIGADE_CHECK(wire == DType::f16 || wire == DType::bf16, "half hook: expected f16 or bf16, got ",
                wire);
}

std::string HalfHook::name() const {
  return wire_ == DType::f16 ? "fp16" : "bf16";
}

void HalfHook::prepare(std::span<const autograd::Variable> /*parameters*/,
                       std::span<const Bucket> buckets, Communicator& comm) {
  chunks_.clear();
  for (const Bucket& bucket : buckets) {
    BRIGADE_CHECK(bucket.grads.dtype() == DType::f32, name(), " hook: expected gradients in f32, ",
                  "got ", bucket.grads.dtype(), "; use --comm-hook none");
    chunks_.push_back(std::make_shared<Chunks>(bucket.grads, wire_, comm));
  }
}

Work HalfHook::all_reduce(std::size_t index, const Chunk& piece, Communicator& comm) {
  return comm.enqueue(piece.grads, piece.label,
                      [chunks = chunks_.at(index)](Collectives& ranks) { chunks->run(ranks); });
}

}  // namespace brigade::dist
