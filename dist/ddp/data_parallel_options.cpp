#include "dist/ddp/data_parallel_options.h"

#include <vector>

#include "dist/ddp/bucket.h"

namespace brigade::dist {

BucketPolicy bucket_policy(const DataParallelOptions& options) {
  if (options.mode == SyncMode::per_param) {
    return {.cap_bytes = 0};  // one parameter per bucket
  }
  return {.by = options.bucket_by,
          .cap_bytes = options.bucket_bytes,
          .first_cap_bytes = options.first_bucket_bytes,
          .last_cap_bytes = options.last_bucket_bytes};
}

BucketPlan plan_buckets(std::span<const autograd::Variable> parameters,
                        const DataParallelOptions& options) {
  if (!options.plan.empty()) {
    return options.plan;
  }
  const std::vector<PlanParameter> planned = plan_parameters(parameters);
  return assign_buckets(planned, expected_order(planned), bucket_policy(options));
}

}  // namespace brigade::dist
