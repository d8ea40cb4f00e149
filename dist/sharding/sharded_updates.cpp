#include "dist/sharding/sharded_updates.h"

#include <algorithm>

#include "core/error.h"
#include "core/runtime/context.h"

namespace brigade::dist {

// Weights that still travel when an exception ends the job may never arrive.
ShardedUpdates::~ShardedUpdates() {
  const bool failing = std::uncaught_exceptions() > exceptions_at_start_;
  for (const autograd::Variable& parameter : parameters_) {
    try {
      failing ? void(parameter.set_pending_write(nullptr)) : parameter.wait_for_pending_write();
    } catch (const std::exception& error) {
      report_line(fmt::format("sharded optimizer: {}", error.what()));
    }
  }
}

void ShardedUpdates::prepare(std::span<const autograd::Variable> parameters,
                             std::span<const Bucket> buckets, Communicator& comm) {
  comm_ = &comm;
  // Gradients are about to move into other buckets, of which the ranks have other shares: now each
  // needs all of them.
  for (const Bucket& bucket : buckets_) {
    if (std::ranges::any_of(bucket.members,
                            [this](std::size_t i) { return is_divided(parameters_[i]); })) {
      all_gather(bucket.grads);
      compute_stream(bucket.grads.device()).synchronize();  // see GradAverager::rebuild_buckets
    }
  }
  parameters_.assign(parameters.begin(), parameters.end());
  buckets_.assign(buckets.begin(), buckets.end());
}

/// Whether this rank has only its share of the sum.
bool ShardedUpdates::is_divided(const autograd::Variable& parameter) const {
  const autograd::GradState& state = *parameter.grad_state();
  return comm_->size() > 1 && state.has_grad() && state.synchronized();
}

void ShardedUpdates::backward_begins() {
  for (const autograd::Variable& parameter : parameters_) {
    BRIGADE_CHECK(!is_divided(parameter),
                  "sharded optimizer: expected zero_grad() before this backward, because the "
                  "gradient of '{}' has been divided among the ranks; accumulate inside no_sync()",
                  parameter.name());
  }
}

Work ShardedUpdates::all_reduce(std::size_t /*bucket*/, const Tensor& grads, std::string_view label,
                                Communicator& comm) {
  return comm.enqueue(grads, label, [grads](Collectives& ranks) { ranks.reduce_scatter(grads); });
}

std::optional<Share> ShardedUpdates::mine(std::int64_t numel) const {
  return comm_ != nullptr ? std::optional(share_of(numel, comm_->rank(), comm_->size()))
                          : std::nullopt;
}

void ShardedUpdates::all_gather(const Tensor& tensor) {
  const auto gather = [tensor](Collectives& ranks) { ranks.all_gather(tensor); };
  comm_->wait(comm_->enqueue(tensor, "shares", gather));
}

void ShardedUpdates::sum(const Tensor& tensor) {
  if (comm_ != nullptr) {
    comm_->blocking_all_reduce(tensor, "sum over shards");
  }
}

void ShardedUpdates::updated() {
  for (auto next = buckets_.rbegin(); next != buckets_.rend(); ++next) {
    const Bucket& bucket = *next;
    const Work work =
        comm_->enqueue(bucket.data, bucket.label + "[weights]",
                       [data = bucket.data](Collectives& ranks) { ranks.all_gather(data); });
    for (const std::size_t member : bucket.members) {
      parameters_[member].set_pending_write([comm = comm_, work] { comm->wait(work); });
    }
  }
}

}  // namespace brigade::dist
