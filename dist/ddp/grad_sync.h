#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "autograd/variable.h"
#include "dist/comm/communicator.h"
#include "dist/ddp/bucket.h"
#include "dist/ddp/bucket_completion.h"
#include "dist/ddp/comm_hook.h"

namespace brigade::dist {

/// When gradients are all-reduced; see the table in dist/README.md.
enum class SyncMode { naive, flat, per_param, overlap };
SyncMode parse_sync_mode(std::string_view name);
std::string_view to_string(SyncMode mode);

/// Averages the gradients of one backward over the ranks. The modes differ in nothing but their
/// GradSync.
///
/// Every contribution already carries the factor 1 / ranks (GradState::grad_scale), so a sum is the
/// average. All calls come on the thread of backward().
class GradSync {
 public:
  virtual ~GradSync() = default;

  /// The gradient of parameter `index` is final and in its bucket. Called once per backward for
  /// each parameter.
  virtual void on_grad_ready(std::size_t index) = 0;

  /// All gradients have come. Afterwards the caller's work is ordered behind all collectives, as
  /// BucketCompletion::backward_ended says.
  virtual void on_backward_end() = 0;

  /// The backward was abandoned: forget its gradients.
  virtual void on_backward_abort() noexcept = 0;
};

/// What a GradSync works on. The references must outlive it.
struct SyncContext {
  const std::vector<autograd::Variable>& parameters;
  const std::vector<Bucket>& buckets;
  Communicator& comm;
  CommHook& hook;
  BucketCompletion& completion;
};

/// The one place where a mode is turned into behaviour. `per_param` expects buckets of one
/// parameter each. UsageError: naive with a communication hook.
std::unique_ptr<GradSync> make_grad_sync(SyncMode mode, SyncContext context);

}  // namespace brigade::dist
