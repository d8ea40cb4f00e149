#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "autograd/hooks.h"
#include "autograd/variable.h"
#include "dist/comm/communicator.h"
#include "dist/ddp/bucket.h"
#include "dist/ddp/bucket_completion.h"
#include "dist/ddp/bucket_rebuilder.h"
#include "dist/ddp/comm_hook.h"
#include "dist/ddp/data_parallel_options.h"
#include "dist/ddp/grad_sync.h"
#include "dist/ddp/unused_parameters.h"

namespace brigade::dist {

/// Makes N ranks train one model: each computes on its own samples, and after every backward all
/// hold the same, averaged gradients.
///
/// Construction is collective: it compares the layouts of all ranks (names, shapes, mode, buckets),
/// then the values, moves parameters and gradients into buckets and attaches itself to the
/// parameters. From then on nothing needs to be called: backward() tells it everything.
/// Destroying it detaches it; the parameters keep their places in the buckets. Wrapping a parameter
/// twice is an error; naming it twice in one list (two layers share a weight) is not: it has one
/// slot. A frozen parameter (requires_grad() false) has none, but is compared and broadcast like
/// the others.
///
/// The end of the first synchronised backward may move them once more (bucket_rebuilder.h): while a
/// new bucket is filled, the old ones whose parameters it takes exist as well. The optimizer may be
/// made before or after; it follows parameters that move.
class GradAverager final : public autograd::GradListener {
 public:
  /// `parameters` in registration order, the same on every rank. Collective over `comm`, which must
  /// outlive this.
  GradAverager(std::vector<autograd::Variable> parameters, Communicator& comm,
               const DataParallelOptions& options);
  ~GradAverager() override;
  GradAverager(const GradAverager&) = delete;
  GradAverager& operator=(const GradAverager&) = delete;

  /// Ends a no_sync() scope: a handle with one owner, like std::unique_ptr.
  struct EndNoSync {
    void operator()(int* depth) const { --*depth; }
  };
  using NoSyncScope = std::unique_ptr<int, EndNoSync>;
  /// Backwards that start while the scope lives only accumulate locally; the first one after it
  /// reduces everything accumulated. Decided when backward starts; scopes nest, and must end before
  /// this does.
  [[nodiscard]] NoSyncScope no_sync() { return NoSyncScope(&++no_sync_depth_); }

  /// Replaces, between two backwards, how buckets are launched and completed; null: the default, a
  /// GradSync of the mode and WaitForBuckets. dist/overlap/in_flight_updates.h uses it.
  using MakeGradSync = std::function<std::unique_ptr<GradSync>(const SyncContext&)>;
  void replace(std::unique_ptr<BucketCompletion> completion, MakeGradSync make_sync);
  /// Error: they are replaced already, or an earlier failure forbids further backwards.
  void check_replaceable() const;
  const DataParallelOptions& options() const { return options_; }

  /// For a rank that has no samples while others run a backward: takes part in all their
  /// collectives, in their order, and contributes zeros, or what earlier backwards inside no_sync()
  /// have left here. Afterwards this rank has the average as well. Inside no_sync() it does
  /// nothing, as there is nothing to shadow.
  void shadow_backward();

  /// Throws VerificationError unless all ranks hold bit-equal parameters. Collective.
  void verify_parameters_equal() const;

  /// Those that train, each once: what the optimizer is for.
  const std::vector<autograd::Variable>& parameters() const { return parameters_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Moves the parameters into the buckets of `plan`, between two backwards, and for good: a run
  /// that continues another one begins with that one's buckets. Every rank has the same plan.
  void use_plan(const BucketPlan& plan);
  /// Whether the first synchronised backward has led to other buckets than those at the start.
  bool rebuilt() const { return rebuilt_; }
  Communicator& communicator() const { return comm_; }

  void on_backward_begin() override;
  void on_grad_ready(std::size_t index) override;
  void on_backward_end() override;
  void on_backward_abort() noexcept override;

 private:
  const char* refusal() const { return refusal_ ? refusal_ : completion_->failure(); }
  void check_not_refused() const;
  void check_frozen() const;
  void check_all_reached();
  void report(std::size_t index);
  void lay_out(const BucketPlan& plan);
  void connect();
  void rebuild_buckets();

  std::vector<autograd::Variable> parameters_;
  std::vector<autograd::Variable> frozen_;
  Communicator& comm_;
  DataParallelOptions options_;
  HookUse hook_use_{*options_.hook};
  std::vector<Bucket> buckets_;
  bool all_reached_ = false;       // the ranks have compared which parameters backward reaches
  const char* refusal_ = nullptr;  // why there can be no further backward
  // State of one backward.
  bool synchronizes_ = false;             // it is outside no_sync()
  std::uint64_t collectives_before_ = 0;  // started before it began
  std::vector<bool> arrived_;             // parameter -> its gradient is final

  std::unique_ptr<BucketCompletion> completion_;
  MakeGradSync make_sync_;  // empty: by options_.mode
  bool replaced_ = false;   // completion_ is not the default
  std::unique_ptr<GradSync> sync_;
  std::unique_ptr<UnusedParameters> unused_;  // null: an unused parameter is an error
  BucketRebuilder rebuilder_;
  bool rebuilt_ = false;
  std::vector<autograd::ListenerHandle> handles_;
  int no_sync_depth_ = 0;
};

}  // namespace brigade::dist
