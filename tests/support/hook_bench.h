#pragma once

#include <memory>
#include <vector>

#include "dist/ddp/comm_hook.h"

namespace brigade::test {

/// A communication hook and one bucket of parameters whose gradients a test writes itself.
class HookBench {
 public:
  HookBench(dist::Communicator& comm, std::unique_ptr<dist::CommHook> hook,
            const std::vector<Shape>& shapes);

  /// One step: puts this rank's gradients into the bucket, lets the hook reduce it, and returns
  /// what lies there afterwards; all parameters one behind the other, without padding.
  std::vector<float> reduce(const std::vector<float>& gradients);

  /// What the bucket holds, padding included.
  std::int64_t numbers() const { return buckets_.front().grads.numel(); }

 private:
  dist::Communicator& comm_;
  std::unique_ptr<dist::CommHook> hook_;
  std::vector<autograd::Variable> parameters_;
  std::vector<dist::Bucket> buckets_;
};

/// What all ranks pass, rank after rank; all must pass as many.
std::vector<std::vector<float>> from_all(dist::Communicator& comm, const std::vector<float>& mine);

}  // namespace brigade::test
