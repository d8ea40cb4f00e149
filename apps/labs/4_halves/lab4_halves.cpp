// Lab 4: buckets by halves.
//
// Every message has a start-up cost, the same for a bias of 4 numbers as for a weight of 16384. So
// one flat tensor, a bucket, holds the gradients of the first half of the parameters, another those
// of the second half. Two all-reduces replace six. They start after backward, as in lab 2, to show
// what buckets alone gain.
#include <span>

#include "apps/labs/common.h"

namespace brigade::labs {
namespace {

/// A flat tensor whose slices become the gradients of `members`. Backward then writes there
/// directly: no gradient is copied into a bucket or out of it.
Tensor make_bucket(std::span<const Variable> members, const dist::Communicator& comm) {
  std::int64_t numel = 0;
  for (const Variable& member : members) {
    numel += member.shape().numel();
  }
  Tensor bucket = Tensor::zeros({numel});
  say(comm, "bucket of {} bytes", bucket.nbytes());
  std::int64_t begin = 0;
  for (const Variable& member : members) {
    member.move_grad_to(bucket.flat_view(begin, member.shape()));
    say(comm, "  {:<8}  elements {} to {}", member.name(), begin,
        begin + member.shape().numel() - 1);
    begin += member.shape().numel();
  }
  return bucket;
}

}  // namespace

void run(dist::Communicator& comm, Recorder& trace) {
  const auto model = make_model();
  const std::vector<Variable> parameters = model->parameters();
  const std::span<const Variable> all(parameters);
  const std::size_t half = all.size() / 2;
  // The second half first, because backward computes its gradients first.
  const std::vector<Tensor> buckets{make_bucket(all.subspan(half), comm),
                                    make_bucket(all.first(half), comm)};

  train(*model, comm, trace, [&](const Variable& loss) {
    loss.backward(1.0 / comm.size());
    for (const Tensor& bucket : buckets) {
      comm.blocking_all_reduce(bucket, "half");
    }
  });

  say(comm, "{} collectives per step for {} parameters", comm.collectives() / kSteps,
      parameters.size());
  expect(comm.collectives() == kSteps * buckets.size(),
         "expected one collective per bucket and step");
  check_weights(parameters, comm, comm.size());
}

}  // namespace brigade::labs
