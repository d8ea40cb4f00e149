#include "dist/data_parallel.h"

#include "core/error.h"
#include "dist/replica_check.h"

namespace brigade::dist {

BucketPlan plan_buckets(std::span<const autograd::Variable> parameters,
                        const DataParallelOptions& options) {
  if (!options.plan.empty()) {
    return options.plan;
  }
  std::vector<std::size_t> bytes;
  for (const autograd::Variable& parameter : parameters) {
    bytes.push_back(slice_bytes(parameter.data()));
  }
  return assign_buckets(bytes, options.mode == SyncMode::per_param ? 0 : options.bucket_bytes);
}

DataParallel::DataParallel(std::vector<autograd::Variable> parameters, Communicator& comm,
                           const DataParallelOptions& options)
    : parameters_(std::move(parameters)), comm_(comm), hook_(options.hook) {
  for (const autograd::Variable& parameter : parameters_) {
    BRIGADE_CHECK(parameter.requires_grad() && parameter.is_leaf(), "data parallel: '",
                  parameter.name(),
                  "' is not a leaf that requires a gradient; pass trainable parameters only");
    BRIGADE_CHECK(parameter.grad_state()->listeners.empty(), "data parallel: parameter '",
                  parameter.name(), "' is already wrapped; its gradient would be reduced twice");
  }
  const BucketPlan plan = plan_buckets(parameters_, options);
  check_same_layout(parameters_, options, plan, comm_);
  if (options.init_sync == InitSync::broadcast) {
    broadcast_parameters(parameters_, comm_);
  } else {
    check_same_values(parameters_, comm_);
  }

  buckets_ = make_buckets(parameters_, plan);
  sync_ = make_grad_sync(options.mode, {parameters_, buckets_, comm_, *hook_});
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].grad_state()->leaf_scale = 1.0 / comm_.size();
    handles_.push_back(parameters_[i].attach_listener(*this, i));
  }
}

DataParallel::~DataParallel() {
  for (const autograd::Variable& parameter : parameters_) {
    parameter.grad_state()->leaf_scale = 1.0;
    parameter.grad_state()->carry = 1.0;
  }
}

void DataParallel::verify_parameters_equal() const {
  check_same_values(parameters_, comm_);
}

void DataParallel::on_backward_begin() {
  syncing_ = no_sync_depth_ == 0;
  for (const autograd::Variable& parameter : parameters_) {
    // A gradient that is already the average will be summed over the ranks once more, together with
    // what this backward adds. Shrunk by 1 / ranks it comes out of that sum as it was. The factor
    // is the beta of the next dW GEMM, so it costs nothing.
    autograd::GradState& state = *parameter.grad_state();
    state.carry = state.synchronized ? 1.0 / comm_.size() : 1.0;
  }
}

void DataParallel::on_grad_ready(std::size_t index) {
  // True again only when the sum has been ordered before the optimizer, in on_backward_end: an
  // optimizer step after a backward that failed in between is refused.
  parameters_[index].grad_state()->synchronized = false;
  if (syncing_) {
    sync_->on_grad_ready(index);
  }
}

void DataParallel::on_backward_end() {
  if (syncing_) {
    sync_->on_backward_end();
    for (const autograd::Variable& parameter : parameters_) {
      parameter.grad_state()->synchronized = true;
    }
  }
}

void DataParallel::on_backward_abort() noexcept {
  sync_->reset();
}

}  // namespace brigade::dist
