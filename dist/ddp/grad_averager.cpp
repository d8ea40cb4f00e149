#include "dist/ddp/grad_averager.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/runtime/context.h"
#include "dist/comm/gather.h"
#include "dist/ddp/replica_check.h"

namespace brigade::dist {
namespace {

/// The error for parameters without a gradient; it names `rank` and up to five parameters. Empty if
/// all have `arrived`.
std::string missing_text(const std::vector<autograd::Variable>& parameters,
                         const std::vector<bool>& arrived, int rank) {
  constexpr std::size_t kShown = 5;
  std::string names;
  std::size_t missing = 0;
  for (std::size_t i = 0; i < arrived.size(); ++i) {
    if (!arrived[i] && missing++ < kShown) {
      names += fmt::format("'{}', ", parameters[i].name());
    }
  }
  if (missing == 0) {
    return "";
  }
  missing > kShown ? names += "..." : names.erase(names.size() - 2);
  return fmt::format(
      "data parallel: {} of {} parameters got no gradient in this backward on rank {}: {}; the "
      "loss must depend on every parameter, on every rank (or do not wrap those parameters, or let "
      "unused ones be found: find_unused_parameters, --find-unused)",
      missing, arrived.size(), rank, names);
}

}  // namespace

GradAverager::GradAverager(std::vector<autograd::Variable> parameters, Communicator& comm,
                           const DataParallelOptions& options)
    : parameters_(autograd::trainable(parameters)),
      comm_(comm),
      options_(options),
      rebuilder_(options.plan.empty()) {
  std::ranges::copy_if(parameters, std::back_inserter(frozen_),
                       std::not_fn(&autograd::Variable::requires_grad));
  BRIGADE_CHECK(!parameters_.empty(),
                "data parallel: none of {} parameters requires a gradient; unfreeze some, or call "
                "register_module() for each layer of a module of your own",
                parameters.size());
  for (const autograd::Variable& parameter : parameters_) {
    BRIGADE_CHECK(
        parameter.is_leaf(),
        "data parallel: '{}' is not a leaf but was computed; pass the parameters it comes from",
        parameter.name());
    BRIGADE_CHECK(
        !parameter.grad_state()->has_listeners(),
        "data parallel: parameter '{}' is already wrapped; its gradient would be reduced twice",
        parameter.name());
  }
  const BucketPlan plan =
      options.plan.empty() ? plan_buckets(parameters_, options.capacity()) : options.plan;
  check_same_layout(parameters_, frozen_, options, plan, comm_);
  if (options.init_sync == InitSync::broadcast) {
    broadcast_parameters(parameters, comm_);
  } else {
    check_same_values(parameters, comm_, Replicas::initial);
  }

  completion_ = std::make_unique<WaitForBuckets>(comm_);
  lay_out(plan);
  if (options.find_unused_parameters) {
    unused_ = std::make_unique<UnusedParameters>(parameters_, comm_);
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].grad_state()->set_grad_scale(1.0 / comm_.size());
    handles_.push_back(parameters_[i].attach_listener(*this, i));
  }
}

GradAverager::~GradAverager() {
  for (const autograd::Variable& parameter : parameters_) {
    parameter.grad_state()->set_grad_scale(1.0);
    parameter.grad_state()->set_accumulate_scale(1.0);
  }
}

void GradAverager::lay_out(const BucketPlan& plan) {
  refusal_ = "moving the parameters into new buckets has failed, so their places are unknown";
  options_.hook->prepare(parameters_, {}, comm_);  // releases the old gradients
  buckets_.clear();  // an old bucket is freed when its last parameter has moved
  buckets_ = make_buckets(parameters_, plan, std::bind_front(&Communicator::make_buffer, &comm_));
  options_.hook->prepare(parameters_, buckets_, comm_);
  connect();
  refusal_ = nullptr;
}

void GradAverager::connect() {
  const SyncContext context{parameters_, buckets_, comm_, *options_.hook, *completion_};
  sync_ = make_sync_ ? make_sync_(context) : make_grad_sync(options_.mode, context);
}

void GradAverager::replace(std::unique_ptr<BucketCompletion> completion, MakeGradSync make_sync) {
  refusal_ = refusal();
  replaced_ = completion != nullptr;
  completion_ = replaced_ ? std::move(completion) : std::make_unique<WaitForBuckets>(comm_);
  make_sync_ = std::move(make_sync);
  connect();
}

void GradAverager::check_replaceable() const {
  check_not_refused();
  BRIGADE_CHECK(!replaced_, "data parallel: updates are in flight already");
}

void GradAverager::verify_parameters_equal() const {
  check_same_values(parameters_, comm_, Replicas::trained);
  check_same_values(frozen_, comm_, Replicas::trained);
}

void GradAverager::check_not_refused() const {
  BRIGADE_CHECK(refusal() == nullptr, "data parallel: {}; end the job", refusal());
}

void GradAverager::on_backward_begin() {
  check_not_refused();
  check_frozen();
  options_.hook->backward_begins();
  for (const autograd::Variable& parameter : parameters_) {
    // The last step's update may still be reading the gradients that this backward overwrites.
    parameter.wait_for_pending_write();
    // A gradient that is already the average will be summed over the ranks once more, together with
    // what this backward adds. Shrunk by 1 / ranks it comes out of that sum as it was. The factor
    // is the beta of the next dW GEMM, so it costs nothing.
    autograd::GradState& state = *parameter.grad_state();
    state.set_accumulate_scale(state.synchronized() ? 1.0 / comm_.size() : 1.0);
  }
  arrived_.assign(parameters_.size(), false);
  collectives_before_ = comm_.collectives();
  synchronizes_ = no_sync_depth_ == 0;
  if (!synchronizes_) {
    return;
  }
  completion_->backward_begins();
  if (unused_) {
    for (const std::size_t index : unused_->begin()) {
      report(index);
    }
  } else if (!all_reached_) {
    check_all_reached();
    all_reached_ = true;  // not before: after an error all ranks check again
  }
}

/// In the first backward that synchronises all ranks hear which rank misses which parameter, before
/// any waits for it. Later ones do not stop for that: a rank whose model has changed since tells it
/// alone, at the end of its backward, and the others end with the job.
void GradAverager::check_all_reached() {
  std::vector<bool> reached;
  for (const autograd::Variable& parameter : parameters_) {
    reached.push_back(parameter.grad_state()->in_graph());
  }
  // A rank that shadows a backward, or whose caller reports gradients without an engine, has no
  // graph to ask.
  if (std::find(reached.begin(), reached.end(), true) == reached.end()) {
    reached.assign(parameters_.size(), true);
  }
  for (const std::string& text :
       all_gather_sequences(comm_, missing_text(parameters_, reached, comm_.rank()))) {
    if (!text.empty()) {
      throw Error(text);
    }
  }
}

/// Buckets were assigned at construction: a parameter frozen since would leave its bucket waiting,
/// and one that trains since would train on each rank by itself.
void GradAverager::check_frozen() const {
  const auto check = [](const auto& parameters, bool trains, const char* change) {
    for (const autograd::Variable& parameter : parameters) {
      BRIGADE_CHECK(parameter.requires_grad() == trains,
                    "data parallel: parameter '{}' {} after DataParallel was made; do it before, "
                    "or make a new DataParallel",
                    parameter.name(), change);
    }
  };
  check(parameters_, true, "was frozen");
  check(frozen_, false, "was unfrozen");
}

void GradAverager::on_grad_ready(std::size_t index) {
  if (synchronizes_) {
    rebuilder_.note(index);
  }
  report(index);
}

/// Also for what this backward does not reach: ready, but at no time that rebuilder_ should note.
void GradAverager::report(std::size_t index) {
  // True again only when the sum has been ordered before the optimizer, in on_backward_end: an
  // optimizer step after a backward that failed in between is refused.
  parameters_[index].grad_state()->set_synchronized(false);
  if (synchronizes_) {
    BRIGADE_CHECK(!arrived_.at(index),
                  "data parallel: the gradient of '{}' was reported twice in one backward",
                  parameters_[index].name());
    arrived_[index] = true;
    sync_->on_grad_ready(index);
  }
}

void GradAverager::on_backward_end() {
  if (!synchronizes_) {
    return;
  }
  if (const std::string text = missing_text(parameters_, arrived_, comm_.rank()); !text.empty()) {
    throw Error(text);
  }
  sync_->on_backward_end();
  synchronizes_ = false;
  for (const autograd::Variable& parameter : parameters_) {
    parameter.grad_state()->set_synchronized(true);
  }
  if (unused_) {
    unused_->end();
  }
  if (rebuilder_.due()) {
    rebuild_buckets();
  }
}

// At the end of the backward that was watched, and not before the next one: whoever holds the plan
// next (optimizer, time line, reader of buckets()) already sees the final one.
void GradAverager::rebuild_buckets() {
  if (parameters_.empty()) {
    return;
  }
  // The host is about to block in a broadcast and to allocate. On a GPU that ranks share neither
  // may happen while a collective is in flight; this once, the host waits for the device.
  for (const autograd::Variable& parameter : parameters_) {
    parameter.wait_for_pending_write();  // updates in flight read and write the old buckets
  }
  compute_stream(parameters_.front().device()).synchronize();
  const std::optional<BucketPlan> plan =
      rebuilder_.decide(parameters_, options_.capacity(), buckets_, comm_);
  if (plan) {
    lay_out(*plan);
    rebuilt_ = true;
  }
}

void GradAverager::use_plan(const BucketPlan& plan) {
  check_replaceable();
  rebuilder_ = BucketRebuilder(/*wanted=*/false);
  lay_out(plan);
}

// With a collective in flight the ranks' collectives no longer match. A rank that had started none
// cannot know whether others have: who goes on after an error must make sure that all have failed
// alike.
void GradAverager::on_backward_abort() noexcept {
  if (synchronizes_ && comm_.collectives() != collectives_before_) {
    refusal_ =
        "an earlier backward failed with an all-reduce in flight, so the ranks no longer execute "
        "the same collectives";
  }
  synchronizes_ = false;
  rebuilder_.forget();
  sync_->on_backward_abort();
  if (unused_) {
    unused_->reset();
  }
}

// A backward without a graph. To the GradSync it looks like any other, so all modes can be
// mirrored.
void GradAverager::shadow_backward() {
  if (no_sync_depth_ > 0) {
    return;
  }
  try {
    on_backward_begin();
    if (!unused_) {  // else all have reported in on_backward_begin()
      for (const Bucket& bucket : buckets_) {
        for (const std::size_t index : bucket.members) {
          contribute_without_backward(parameters_[index]);
          report(index);
        }
      }
    }
    on_backward_end();
  } catch (...) {
    on_backward_abort();
    throw;
  }
}

}  // namespace brigade::dist
