#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/hooks.h"
#include "dist/ddp/comm_hook.h"

namespace brigade::dist {

/// Stops a rank at the first gradient that is NaN or infinite, before the all-reduce spreads it to
/// all ranks. Decorates the hook that does the work. Mode naive has no hooks and uses
/// watch_naive().
///
/// The Error names step, bucket and parameter; run() adds the rank and ends the job. Costs one pass
/// over the gradients in memory. On a GPU the host also waits until each bucket is computed, so
/// nothing overlaps: use it to find a fault.
class FiniteCheck final : public CommHook, private autograd::GradListener {
 public:
  explicit FiniteCheck(std::shared_ptr<CommHook> inner) : inner_(std::move(inner)), use_(*inner_) {}

  /// Steps count from 1. Before each: what an Error calls it.
  void begin_step(std::int64_t step) { step_ = step; }

  /// For mode naive: checks each gradient when it is final, and naive sends none before the end of
  /// backward. To be called once the GradAverager exists.
  void watch_naive(const std::vector<autograd::Variable>& parameters);

  std::string name() const override { return inner_->name(); }
  void prepare(std::span<const autograd::Variable> parameters, std::span<const Bucket> buckets,
               Communicator& comm) override;
  void backward_begins() override { inner_->backward_begins(); }
  Work all_reduce(std::size_t bucket, const Tensor& grads, std::string_view label,
                  Communicator& comm) override;
  NamedTensors state() const override { return inner_->state(); }

 private:
  void on_grad_ready(std::size_t index) override;
  void check(std::size_t parameter, std::string_view bucket) const;

  std::shared_ptr<CommHook> inner_;
  HookUse use_;  // this decorator is the inner hook's only user
  std::int64_t step_ = 1;
  std::vector<autograd::Variable> parameters_;
  std::vector<std::vector<std::size_t>> members_;  // of each bucket
  std::vector<autograd::ListenerHandle> handles_;  // in mode naive
};

}  // namespace brigade::dist
