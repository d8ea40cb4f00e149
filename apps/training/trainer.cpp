#include "apps/training/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "autograd/variable.h"
#include "core/error.h"
#include "core/runtime/context.h"
#include "core/runtime/trace.h"
#include "dist/comm/gather.h"
#include "optim/clip_grad.h"

namespace brigade::apps {

namespace {
/// `losses`: of one step, by rank.
void check_finite(const std::vector<double>& losses, std::int64_t step) {
  const auto bad = [](double loss) { return !std::isfinite(loss); };
  const auto first = std::find_if(losses.begin(), losses.end(), bad);
  if (first == losses.end()) {
    return;
  }
  std::string where = losses.size() == 1 ? "rank 0" : "all ranks";
  std::string advice = "; training has diverged: lower --lr";
  if (!std::ranges::all_of(losses, bad)) {
    where = fmt::format("rank {}", first - losses.begin());
    advice =
        ", while other ranks' are finite: look for NaN or inf in that rank's data; if the losses "
        "before grew, training has diverged: lower --lr";
  }
  throw Error(fmt::format("loss: expected a finite number, got {:g} in step {} on {}{}", *first,
                          step, where, advice));
}

double samples_of(const std::vector<data::Batch>& batches) {
  double samples = 0.0;
  for (const data::Batch& batch : batches) {
    samples += static_cast<double>(batch.size());
  }
  return samples;
}

}  // namespace

Trainer::Trainer(const TrainerParts& parts)
    : parts_(parts),
      comm_(parts.data_parallel.communicator()),
      loader_(parts.data, parts.sampler, parts.device, parts.prefetch),
      clock_(parts.device, comm_),
      recorder_(parts.trace, clock_, comm_) {
  if (parts.in_flight) {
    in_flight_.emplace(parts.data_parallel, dist::calls_of(parts.optimizer), *parts.in_flight);
  }
}

bool Trainer::crosses_steps() const {
  return parts_.sharded || parts_.in_flight == dist::UpdateDeadline::next_read;
}

void Trainer::step(std::int64_t step, Timed timed) {
  begin_step(step);
  parts_.optimizer.zero_grad();
  for (const MicroBatch& micro : micro_batches()) {
    backward(forward(micro), micro);
  }
  update();
  end_step(timed);
}

void Trainer::begin_step(std::int64_t step) {
  if (parts_.watch != nullptr) {
    parts_.watch->begin_step(step + 1);
  }
  recorder_.before_step(step);
  {
    const TraceScope trace("load batch", Lane::data);
    const auto begin = std::chrono::steady_clock::now();
    batches_ = &loader_.load(step);
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin;
    load_ms_ = crosses_steps() ? 0.0 : spent.count();
  }
  const std::int64_t in_epoch = step % parts_.sampler.steps_per_epoch();
  samples_ = static_cast<double>(parts_.sampler.global_samples(in_epoch));
  next_step_ = step;
  if (parts_.finite_check != nullptr) {
    parts_.finite_check->begin_step(step + 1);
  }
  if (parts_.reduce_check != nullptr) {
    parts_.reduce_check->begin_step(step + 1);
  }
  if (parts_.schedule) {
    parts_.optimizer.set_lr(parts_.schedule->at(step));
  }
  start_together();
  clock_.start(crosses_steps() ? StepClock::Border::none : StepClock::Border::barrier);
}

void Trainer::end_step(Timed timed) {
  StepSpans spans =
      clock_.finish(in_flight_ ? in_flight_->take_records() : std::vector<dist::UpdateRecord>());
  spans.load = load_ms_;
  if (timed == Timed::yes) {
    history_.add(spans, samples_);
  }
  recorder_.after_step(next_step_, std::move(spans));
  global_samples_.push_back(samples_);
  ++next_step_;
  add_losses();
}

/// The data is there and all ranks begin at the same time: neither loading nor a late rank counts
/// as part of the step. Where communication runs on across the border of two steps there is none
/// to speak of, and everything counts.
void Trainer::start_together() {
  if (crosses_steps()) {
    return;
  }
  const TraceScope trace("barrier", Lane::host);
  compute_stream(parts_.device).synchronize();
  if (comm_.size() > 1) {
    comm_.barrier();
  }
}

std::vector<MicroBatch> Trainer::micro_batches() const {
  const double samples = parts_.never_sync ? samples_of(*batches_) : samples_;
  std::vector<MicroBatch> result;
  for (const data::Batch& batch : *batches_) {
    const bool last = &batch == &batches_->back();
    result.push_back({.batch = batch,
                      .grad_scale = static_cast<double>(batch.size()) * comm_.size() / samples,
                      .synchronizes = !parts_.never_sync && (last || !parts_.deferred_sync)});
  }
  return result;
}

autograd::Variable Trainer::forward(const MicroBatch& micro) {
  autograd::Variable loss;
  if (micro.batch.size() > 0) {
    autograd::Variable prediction;
    {
      const TraceScope trace("forward");
      prediction = parts_.model.forward(autograd::Variable(micro.batch.inputs));
    }
    const TraceScope trace("loss");
    loss = parts_.loss(prediction, micro.batch.targets);
  }
  clock_.forward_done();
  return loss;
}

void Trainer::backward(const autograd::Variable& loss, const MicroBatch& micro) {
  std::optional<dist::GradAverager::NoSyncScope> silent;
  if (!micro.synchronizes) {
    silent.emplace(parts_.data_parallel.no_sync());
  }
  {
    const TraceScope trace("backward");
    if (micro.batch.size() == 0) {
      parts_.data_parallel.shadow_backward();
      micro_losses_.emplace_back();
    } else {
      loss.backward(micro.grad_scale);
      micro_losses_.push_back(loss.data());
    }
  }
  clock_.backward_done();
}

void Trainer::update() {
  // Without samples this rank has nothing to go by, and with never_sync nobody to ask.
  const bool blank = parts_.never_sync && samples_of(*batches_) == 0.0;
  if (parts_.in_flight || blank) {
    return;
  }
  const TraceScope trace("optimizer", Lane::optimizer);
  if (parts_.clip_norm > 0.0) {
    optim::clip_grad_norm(parts_.optimizer, parts_.clip_norm);
  }
  parts_.optimizer.step(parts_.never_sync ? optim::LocalGradients::allow
                                          : optim::LocalGradients::refuse);
}

/// Adds each loss times its samples. They are computed: clock_.finish() has waited for the
/// device. Collective once per kWindow steps.
void Trainer::add_losses() {
  // Steps between gathers: one per step would slow training down.
  constexpr std::size_t kWindow = 64;
  double sum = 0.0;
  for (std::size_t micro = 0; micro < batches_->size(); ++micro) {
    if (const Tensor& loss = micro_losses_[micro]; loss.defined()) {
      sum += loss.item() * static_cast<double>((*batches_)[micro].size());
    }
  }
  micro_losses_.clear();
  loss_sums_.push_back(sum);
  if (loss_sums_.size() == kWindow) {
    collect_losses();
  }
}

/// All ranks collect after the same steps and then know each other's losses, so a loss that is not
/// finite ends the run on all of them, with one message that tells where it began.
void Trainer::collect_losses() {
  const std::size_t steps = loss_sums_.size();
  const auto ranks = dist::all_gather_sequences(comm_, std::exchange(loss_sums_, {}));
  for (std::size_t i = 0; i < steps; ++i) {
    std::vector<double> sums;
    sums.reserve(ranks.size());
    for (const std::vector<double>& one : ranks) {
      sums.push_back(one[i]);
    }
    check_finite(sums, next_step_ - static_cast<std::int64_t>(steps - i) + 1);
    losses_.push_back(std::accumulate(sums.begin(), sums.end(), 0.0) /
                      global_samples_[losses_.size()]);
  }
}

std::vector<double> Trainer::take_losses() {
  collect_losses();
  global_samples_.clear();
  return std::exchange(losses_, {});
}

}  // namespace brigade::apps
