#include "optim/optimizer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "core/runtime/context.h"

namespace brigade::optim {
namespace {

/// Leaves of `part` only its intersection with `share` of its span; that may be empty.
void cut(ParamRange& part, const Share& share) {
  const std::int64_t begin = std::max(part.begin, share.begin);
  const std::int64_t end = std::min(part.begin + part.data.numel(), share.begin + share.count);
  const std::int64_t count = std::max(end - begin, std::int64_t{0});
  const std::int64_t offset = count > 0 ? begin - part.begin : 0;
  part.begin = count > 0 ? begin : share.begin;
  part.data = part.data.flat_view(offset, {count});
  part.grad = part.grad.flat_view(offset, {count});
}

}  // namespace

Optimizer::Optimizer(const std::vector<autograd::Variable>& parameters,
                     std::vector<std::string> state_names, const Rates& rates)
    : rates_(rates),
      parameters_(autograd::trainable(parameters)),
      state_names_(std::move(state_names)),
      updates_(parameters_.size()) {
  BRIGADE_CHECK(rates.weight_decay >= 0.0, "optimizer: expected weight_decay >= 0, got ",
                rates.weight_decay);
  set_lr(rates.lr);
  std::ranges::copy_if(parameters, std::back_inserter(frozen_),
                       [](const autograd::Variable& each) { return !each.requires_grad(); });
}

void Optimizer::shard(Shards shards) {
  check_not_in_flight();
  shards_ = std::move(shards);
  storage_versions_.clear();  // so that the next to ask finds the spans
}

void Optimizer::sum_over_shards(const Tensor& values) const {
  if (shards_) {
    shards_->sum(values);
  }
}

Optimizer::Stretch Optimizer::make_stretch(const FlatSpan& members) const {
  const Tensor& first = parameters_[members.front()].data();
  Stretch result;
  result.members = members;
  for (const std::size_t i : members) {
    const Tensor& data = parameters_[i].data();
    const std::size_t offset = (data.byte_offset() - first.byte_offset()) / size_of(data.dtype());
    result.offsets.push_back(static_cast<std::int64_t>(offset));
    result.numel = result.offsets.back() + data.numel();
  }
  const std::optional<Share> share = shards_ ? shards_->mine(result.numel) : std::nullopt;
  result.divided = share.has_value();
  result.mine = share.value_or(Share{0, result.numel});
  return result;
}

/// The spans as parameters lie now, and for each what is kept: zeros, or what there was before. It
/// is copied bit by bit, so training goes on as if nothing had moved. Padding is zero. Old memory
/// goes back to the system as soon as the last parameter has left it: no other tensor has its size.
void Optimizer::find_spans() {
  std::vector<Stretch> before = std::exchange(stretches_, {});
  std::vector<FlatSpan> spans = flat_spans(parameters_);
  std::ranges::sort(spans, {}, [](const FlatSpan& span) { return span.front(); });
  std::ranges::transform(spans, std::back_inserter(stretches_),
                         [this](const FlatSpan& span) { return make_stretch(span); });
  for (std::size_t slot = 0; slot < state_names_.size(); ++slot) {
    std::vector<Tensor> old = by_parameter(before, slot);
    for (Stretch& stretch : before) {
      stretch.state[slot] = Tensor();  // `old` has views of it
    }
    for (Stretch& stretch : stretches_) {
      const Tensor& data = parameters_[stretch.members.front()].data();
      stretch.state.push_back(Tensor::zeros({stretch.mine.count}, data.dtype(), data.device()));
      if (!before.empty()) {
        keep(slot, stretch, [&old](std::size_t i) { return std::exchange(old[i], Tensor()); });
        Context::current().allocator(data.device())->trim();
      }
    }
  }
  storage_versions_.clear();
  for (const autograd::Variable& parameter : parameters_) {
    storage_versions_.push_back(parameter.grad_state()->storage_version());
  }
}

/// A slot of all parameters: views, or copies for which the ranks put their shares together.
std::vector<Tensor> Optimizer::by_parameter(const std::vector<Stretch>& stretches,
                                            std::size_t slot) const {
  std::vector<Tensor> result(parameters_.size());
  for (const Stretch& stretch : stretches) {
    const Tensor& kept = stretch.state[slot];
    Tensor whole = kept;
    if (stretch.divided) {
      whole = Tensor::zeros({stretch.numel}, kept.dtype(), kept.device());
      whole.flat_view(stretch.mine.begin, kept.shape()).copy_from(kept);
      shards_->all_gather(whole);
    }
    for (std::size_t k = 0; k < stretch.members.size(); ++k) {
      const std::size_t i = stretch.members[k];
      result[i] = whole.flat_view(stretch.offsets[k], parameters_[i].shape());
    }
  }
  return result;
}

/// Copies from there what this rank keeps of `stretch`.
void Optimizer::keep(std::size_t slot, const Stretch& stretch,
                     const std::function<Tensor(std::size_t)>& by_parameter) {
  for (std::size_t k = 0; k < stretch.members.size(); ++k) {
    const Tensor source = by_parameter(stretch.members[k]);
    const std::int64_t offset = stretch.offsets[k];
    const std::int64_t begin = std::max(offset, stretch.mine.begin);
    const std::int64_t end =
        std::min(offset + source.numel(), stretch.mine.begin + stretch.mine.count);
    if (begin < end) {
      stretch.state[slot]
          .flat_view(begin - stretch.mine.begin, {end - begin})
          .copy_from(source.flat_view(begin - offset, {end - begin}));
    }
  }
}

void Optimizer::follow_moved_parameters() {
  if (!std::ranges::equal(parameters_, storage_versions_, {}, [](const autograd::Variable& each) {
        return each.grad_state()->storage_version();
      })) {
    find_spans();
  }
}

Tensor Optimizer::state(std::size_t slot, const ParamRange& part) const {
  const Stretch& stretch = stretches_[part.span];
  return stretch.state[slot].flat_view(part.begin - stretch.mine.begin, part.data.shape());
}

void Optimizer::step(LocalGradients local) {
  check_gradients(local);
  follow_moved_parameters();
  ++steps_done_;
  parts_of_step_.clear();  // also of a step that has failed
  for (std::size_t span = 0; span < stretches_.size(); ++span) {
    append_parts(span, parts_of_step_);
  }
  for (const ParamRange& part : parts_of_step_) {
    update(part);
  }
  parts_of_step_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    count_update(i);
  }
  if (shards_) {
    shards_->updated();
  }
}

void Optimizer::set_lr(double lr) {
  BRIGADE_CHECK(lr >= 0.0, "optimizer: expected lr >= 0, got ", lr);
  rates_.lr = lr;
}

void Optimizer::count_update(std::size_t index) {
  updates_[index] += takes_part(index) ? 1 : 0;
}

void Optimizer::check_not_in_flight() const {
  BRIGADE_CHECK(
      !in_flight_,
      "optimizer: expected neither step() nor clipping nor GradMemory::discard while buckets "
      "are updated in flight: the gradients may have been used already");
}

void Optimizer::check_gradients(LocalGradients local) const {
  check_not_in_flight();
  for (const autograd::Variable& parameter : frozen_) {
    BRIGADE_CHECK(
        !parameter.requires_grad(), "optimizer: parameter '", parameter.name(),
        "' was frozen when the optimizer was made and trains now; freeze it afterwards, or "
        "give the optimizer only what it is to train");
  }
  for (const autograd::Variable& parameter : parameters_) {
    const autograd::GradState& state = *parameter.grad_state();
    BRIGADE_CHECK(state.has_grad() || state.unused() || state.frozen(), "optimizer: parameter '",
                  state.name(),
                  "' has no gradient: call backward first, on a loss "
                  "that depends on it");
    BRIGADE_CHECK(state.synchronized() || local == LocalGradients::allow,
                  "optimizer: the gradient of '", state.name(),
                  "' was never synchronised over the "
                  "ranks: every backward since zero_grad ran inside no_sync()");
  }
}

bool Optimizer::takes_part(std::size_t index) const {
  const autograd::GradState& state = *parameters_[index].grad_state();
  return state.has_grad() && !state.frozen();
}

double Optimizer::weight_decay_of(std::size_t index) const {
  const bool decays = !rates_.decay_matrices_only || parameters_[index].shape().rank() > 1;
  return decays ? rates_.weight_decay : 0.0;
}

// One part per span where all decay alike. A span breaks around a parameter that is left alone
// (an update with a zero gradient would not do: momentum and weight decay move weights as well) and
// where parameters differ in weight decay or in their number of updates, which Adam's bias
// correction counts.
void Optimizer::append_parts(std::size_t span, std::vector<ParamRange>& result) const {
  const Stretch& stretch = stretches_[span];
  const std::size_t before = result.size();
  bool open = false;
  for (std::size_t k = 0; k < stretch.members.size(); ++k) {
    const std::size_t i = stretch.members[k];
    const std::int64_t step = updates_[i] + 1;
    const double weight_decay = weight_decay_of(i);
    if (!takes_part(i)) {
      open = false;
      continue;
    }
    const Tensor& data = parameters_[i].data();
    const Tensor& grad = parameters_[i].grad_state()->grad();
    if (open && result.back().step == step && result.back().weight_decay == weight_decay) {
      ParamRange& last = result.back();
      last.data = joined(last.data, data);
      last.grad = joined(last.grad, grad);
    } else {
      result.push_back({span, stretch.offsets[k], step, rates_.lr, weight_decay,
                        data.reshape({data.numel()}), grad.reshape({grad.numel()})});
    }
    open = true;
  }
  for (std::size_t part = before; stretch.divided && part < result.size(); ++part) {
    cut(result[part], stretch.mine);
  }
}

std::vector<ParamRange> Optimizer::parts() {
  check_not_in_flight();
  follow_moved_parameters();
  std::vector<ParamRange> result;
  for (std::size_t span = 0; span < stretches_.size(); ++span) {
    append_parts(span, result);
  }
  return result;
}

void Optimizer::begin_step() {
  BRIGADE_CHECK(!shards_,
                "optimizer: expected the whole of it on every rank to update buckets in flight, "
                "got shards; use one or the other");
  in_flight_ = true;
  follow_moved_parameters();
  ++steps_done_;
}

std::function<void()> Optimizer::update_of(const Tensor& grads) {
  std::vector<ParamRange> parts;
  for (std::size_t span = 0; span < stretches_.size(); ++span) {
    const FlatSpan& members = stretches_[span].members;
    // Gradients are asked and not data(), which would wait for the updates of other buckets.
    if (parameters_[members.front()].grad_state()->grad().same_storage(grads)) {
      append_parts(span, parts);
      std::ranges::for_each(members, [this](std::size_t i) { count_update(i); });
    }
  }
  BRIGADE_CHECK(!parts.empty(),
                "optimizer: asked for an update from gradients that are none of its parameters'");
  return [this, parts = std::move(parts)] {
    for (const ParamRange& part : parts) {
      update(part);
    }
  };
}

NamedTensors Optimizer::state() {
  follow_moved_parameters();
  NamedTensors result;
  for (std::size_t slot = 0; slot < state_names_.size(); ++slot) {
    const std::vector<Tensor> tensors = by_parameter(stretches_, slot);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      result.emplace_back(message_of(state_names_[slot], '.', parameters_[i].name()), tensors[i]);
    }
  }
  const Tensor updates = Tensor::empty({std::ssize(updates_)}, DType::i64);
  std::ranges::copy(updates_, updates.data<std::int64_t>());
  result.emplace_back("updates", updates);
  return result;
}

void Optimizer::load_state(const NamedTensors& saved) {
  check_not_in_flight();
  const NamedTensors mine = state();
  copy_by_name(saved, mine, "optimizer");
  updates_ = mine.back().second.to_vector<std::int64_t>();
  for (std::size_t slot = 0; shards_ && slot < state_names_.size(); ++slot) {
    for (const Stretch& stretch : stretches_) {
      keep(slot, stretch,
           [&](std::size_t i) { return mine[slot * parameters_.size() + i].second; });
    }
  }
}

std::size_t Optimizer::state_bytes() const {
  std::size_t bytes = 0;
  for (const Stretch& stretch : stretches_) {
    for (const Tensor& tensor : stretch.state) {
      bytes += tensor.nbytes();
    }
  }
  return bytes;
}

void Optimizer::zero_grad(GradMemory memory) {
  if (memory == GradMemory::discard) {
    check_not_in_flight();
    follow_moved_parameters();  // and no data(), which would wait for weights that still travel
    for (const Stretch& stretch : stretches_) {
      joined(parameters_[stretch.members.front()].grad_state()->grad(),
             parameters_[stretch.members.back()].grad_state()->grad())
          .discard();
    }
  }
  for (const autograd::Variable& parameter : parameters_) {
    parameter.zero_grad();
  }
}

}  // namespace brigade::optim
