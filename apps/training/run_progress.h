#pragma once

#include <chrono>

#include "apps/report/console.h"
#include "apps/report/summary.h"
#include "apps/training/run_info.h"
#include "apps/training/trainer.h"
#include "dist/planning/bucket_tuner.h"
#include "dist/planning/ready_times.h"

namespace brigade::apps {

/// What a run reports to. `metrics` is null on all ranks but the first.
struct RunOutputs {
  const Console& console;
  MetricsFile* metrics = nullptr;
};

/// Looks on while a program trains for info.steps steps: reports progress every info.log_every of
/// them, tests every options.eval_every epochs and at the end, compares replicas as --verify-every
/// asks. The references must outlive it.
class RunProgress {
 public:
  /// The training begins now.
  RunProgress(const RunInfo& info, const TrainerParts& parts, Trainer& trainer,
              const data::Dataset& test_data, const RunOutputs& outputs);

  /// Step number `step`, counted from 0, is done. Collective. VerificationError if replicas differ,
  /// Error for a loss that is not finite.
  void after_step(std::int64_t step);

  /// A BucketTuner has chosen when `done` steps were done.
  void buckets_chosen(const dist::BucketChoice& choice, std::int64_t done);

  /// After the last step: losses, tests, times, traffic, trace, and whether the ranks' weights are
  /// equal. Collective.
  RunResult finish();

 private:
  void record();
  void watch_gradients(std::int64_t done);
  Profile profile() const;
  void follow_rebuild();
  void describe_new_buckets();
  void tell_contents();
  void verify(std::int64_t done);
  bool is_test_due(std::int64_t done) const;
  void report(std::int64_t done, bool test);
  Evaluation run_test(std::int64_t done);

  const RunInfo& info_;
  const TrainerParts& parts_;
  Trainer& trainer_;
  const data::Dataset& test_data_;
  RunOutputs outputs_;
  dist::Traffic traffic_before_;  // of the steps that are counted
  std::int64_t counted_from_;     // the first of them
  dist::ReadyTimes ready_times_;
  RunResult result_;
  double samples_ = 0.0;
  double test_seconds_ = 0.0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace brigade::apps
