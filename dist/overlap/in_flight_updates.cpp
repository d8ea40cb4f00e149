#include "dist/overlap/in_flight_updates.h"

#include <memory>
#include <utility>

#include "core/error.h"
#include "dist/overlap/priority_order.h"

namespace brigade::dist {

InFlightUpdates::InFlightUpdates(GradAverager& averager, OptimizerCalls optimizer,
                                 UpdateDeadline deadline)
    : averager_(averager) {
  BRIGADE_CHECK(averager.options().mode != SyncMode::naive,
                "data parallel: naive synchronisation has no buckets to update one by one; use "
                "another mode");
  BRIGADE_CHECK(!averager.options().find_unused_parameters,
                "data parallel: which parameters are unused is known only when backward is over, "
                "too late for updates in flight; use one or the other");
  averager.check_not_refused();
  BRIGADE_CHECK(averager.waits_for_buckets(), "data parallel: updates are in flight already");
  if (averager.parameters().empty()) {
    return;
  }
  auto updates = std::make_unique<BucketOptimizer>(averager.parameters(), averager.communicator(),
                                                   averager.parameters().front().device(),
                                                   std::move(optimizer), deadline);
  updates_ = updates.get();
  std::unique_ptr<BucketCompletion> completion = std::move(updates);
  if (deadline == UpdateDeadline::next_read) {
    completion = std::make_unique<PriorityOrder>(std::move(completion), averager.buckets(),
                                                 averager.communicator(), averager.launch_order());
  }
  averager.replace_completion(std::move(completion));
}

InFlightUpdates::~InFlightUpdates() {
  if (updates_ != nullptr) {
    updates_->finish();
    averager_.replace_completion(std::make_unique<WaitForBuckets>(averager_.communicator()));
  }
}

std::vector<UpdateRecord> InFlightUpdates::take_records() {
  return updates_ != nullptr ? updates_->take_records() : std::vector<UpdateRecord>();
}

}  // namespace brigade::dist
