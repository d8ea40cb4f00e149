#include "dist/ddp/data_parallel_options.h"

#include <vector>

#include "dist/ddp/bucket.h"

namespace brigade::dist {

std::size_t bucket_cap(const DataParallelOptions& options) {
  return options.mode == SyncMode::per_param ? 0 : options.bucket_bytes;
}

BucketPlan plan_buckets(std::span<const autograd::Variable> parameters,
                        const DataParallelOptions& options) {
  if (!options.plan.empty()) {
    return options.plan;
  }
  const std::vector<PlanParameter> planned = plan_parameters(parameters);
  return assign_buckets(planned, expected_order(planned), bucket_cap(options));
}

}  // namespace brigade::dist
