#pragma once

#include <memory>
#include <vector>

#include "dist/ddp/grad_averager.h"

namespace brigade::test {

struct TrainingRun {
  dist::SyncMode mode = dist::SyncMode::overlap;
  int accum = 1;
  bool no_sync = false;
  std::size_t bucket_bytes = 256;
  int steps = 6;
  Device device = kCpu;
  /// One per DataParallel: pass a new one to every call.
  std::shared_ptr<dist::CommHook> hook = std::make_shared<dist::PlainAllReduce>();
};

/// Trains a small MLP (SGD with momentum, MSE) on global batches of 48 rows, each rank on its
/// share, checks that all ranks end with equal parameters, and returns all weights. The same for
/// every number of ranks that divides 48 / accum.
std::vector<float> train(dist::Communicator& comm, const TrainingRun& run);

/// |a - b| / |b|.
double relative_l2(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace brigade::test
