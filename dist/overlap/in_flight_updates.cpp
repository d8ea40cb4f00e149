#include "dist/overlap/in_flight_updates.h"

#include <memory>
#include <utility>

#include "core/error.h"
#include "dist/comm/agreement.h"
#include "dist/overlap/priority_reducer.h"

namespace brigade::dist {

InFlightUpdates::InFlightUpdates(GradAverager& averager, OptimizerCalls optimizer,
                                 UpdateDeadline deadline, std::size_t chunk_bytes)
    : averager_(averager) {
  const DataParallelOptions& options = averager.options();
  BRIGADE_CHECK(
      options.mode != SyncMode::naive,
      "data parallel: naive synchronisation has no buckets to update one by one; use another mode");
  BRIGADE_CHECK(!options.find_unused_parameters,
                "data parallel: which parameters are unused is known only when backward is over, "
                "too late for updates in flight; use one or the other");
  averager.check_replaceable();
  const bool next_read = deadline == UpdateDeadline::next_read;
  check_same_lines(
      "updates in flight",
      {fmt::format("{}, chunks of {} bytes",
                   next_read ? "until the next read" : "until the end of backward", chunk_bytes)},
      averager.communicator());
  if (averager.parameters().empty()) {
    return;
  }
  auto updates = std::make_unique<BucketOptimizer>(averager.parameters(), averager.communicator(),
                                                   averager.parameters().front().device(),
                                                   std::move(optimizer), deadline);
  updates_ = updates.get();
  GradAverager::MakeGradSync make_sync;  // the mode's
  if (next_read && options.mode != SyncMode::flat) {
    make_sync = [chunk_bytes](const SyncContext& context) {
      return std::make_unique<PriorityReducer>(context, chunk_bytes);
    };
  }
  averager.replace(std::move(updates), std::move(make_sync));
}

InFlightUpdates::~InFlightUpdates() {
  if (updates_ != nullptr) {
    updates_->finish();
    averager_.replace(nullptr, nullptr);
  }
}

std::vector<UpdateRecord> InFlightUpdates::take_records() {
  return updates_ != nullptr ? updates_->take_records() : std::vector<UpdateRecord>();
}

}  // namespace brigade::dist
