#include "optim/optimizer.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "core/error.h"

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
      state_(parameters_, state_names_.size()),
      updates_(parameters_.size()) {
  for (const autograd::Variable& parameter : parameters) {
    BRIGADE_CHECK(
        parameter.is_leaf(),
        "optimizer: '{}' is not a leaf but was computed; pass the parameters it comes from",
        parameter.name());
  }
  BRIGADE_CHECK(rates.weight_decay >= 0.0, "optimizer: expected weight_decay >= 0, got {}",
                rates.weight_decay);
  set_lr(rates.lr);
  std::ranges::copy_if(parameters, std::back_inserter(frozen_),
                       [](const autograd::Variable& each) { return !each.requires_grad(); });
}

void Optimizer::shard(Shards shards) {
  check_not_in_flight();
  state_.shard(std::move(shards));
}

void Optimizer::sum_over_shards(const Tensor& values) const {
  if (state_.shards()) {
    state_.shards()->sum(values);
  }
}

Tensor Optimizer::state(std::size_t slot, const ParamRange& part) const {
  return part.span->slots[slot].flat_view(part.begin - part.span->mine.begin, part.data.shape());
}

void Optimizer::step(LocalGradients local) {
  check_gradients(local);
  const std::vector<ParamRange> parts = this->parts();
  for (const ParamRange& part : parts) {
    update(part);
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    updates_[i] += takes_part(i) ? 1 : 0;
  }
  if (state_.shards()) {
    state_.shards()->updated();
  }
}

void Optimizer::set_lr(double lr) {
  BRIGADE_CHECK(lr >= 0.0, "optimizer: expected lr >= 0, got {}", lr);
  rates_.lr = lr;
}

void Optimizer::check_not_in_flight() const {
  BRIGADE_CHECK(!in_flight_,
                "optimizer: expected neither step() nor clipping nor GradMemory::discard while "
                "buckets are updated in flight: the gradients may have been used already");
}

void Optimizer::check_gradients(LocalGradients local) const {
  check_not_in_flight();
  for (const autograd::Variable& parameter : frozen_) {
    BRIGADE_CHECK(!parameter.requires_grad(),
                  "optimizer: parameter '{}' was frozen when the optimizer was made and trains "
                  "now; freeze it afterwards, or give the optimizer only what it is to train",
                  parameter.name());
  }
  for (const autograd::Variable& parameter : parameters_) {
    const autograd::GradState& state = *parameter.grad_state();
    BRIGADE_CHECK(state.has_grad() || state.unused() || state.frozen(),
                  "optimizer: parameter '{}' has no gradient: call backward first, on a loss that "
                  "depends on it",
                  state.name());
    BRIGADE_CHECK(state.synchronized() || local == LocalGradients::allow,
                  "optimizer: the gradient of '{}' was never synchronised over the ranks: every "
                  "backward since zero_grad ran inside no_sync()",
                  state.name());
  }
}

bool Optimizer::takes_part(std::size_t index) const {
  const autograd::GradState& state = *parameters_[index].grad_state();
  return state.has_grad() && !state.frozen();
}

// One part per span where all decay alike. A span breaks around a parameter that is left alone
// (an update with a zero gradient would not do: momentum and weight decay move weights as well) and
// where parameters differ in weight decay or in their number of updates, which Adam's bias
// correction counts.
void Optimizer::append_parts(const StateSpan& span, std::vector<ParamRange>& result) const {
  const std::size_t before = result.size();
  ParamRange* last = nullptr;  // the part that the next member may join
  for (std::size_t k = 0; k < span.members.size(); ++k) {
    const std::size_t i = span.members[k];
    if (!takes_part(i)) {
      last = nullptr;
      continue;
    }
    const Tensor& data = parameters_[i].data();
    const Tensor& grad = parameters_[i].grad_state()->grad();
    const std::int64_t step = updates_[i] + 1;
    const bool decays = !rates_.decay_matrices_only || data.shape().rank() > 1;
    const double weight_decay = decays ? rates_.weight_decay : 0.0;
    if (last != nullptr && last->step == step && last->weight_decay == weight_decay) {
      last->data = joined(last->data, data);
      last->grad = joined(last->grad, grad);
    } else {
      last = &result.emplace_back(ParamRange{&span, span.offsets[k], step, rates_.lr, weight_decay,
                                             data.reshape({data.numel()}),
                                             grad.reshape({grad.numel()})});
    }
  }
  for (std::size_t part = before; span.sharded && part < result.size(); ++part) {
    cut(result[part], span.mine);
  }
}

std::vector<ParamRange> Optimizer::parts() {
  check_not_in_flight();
  state_.follow_parameters();
  std::vector<ParamRange> result;
  result.reserve(state_.spans().size());
  for (const StateSpan& span : state_.spans()) {
    append_parts(span, result);
  }
  return result;
}

void Optimizer::begin_step() {
  BRIGADE_CHECK(!state_.shards(),
                "optimizer: expected the whole of it on every rank to update buckets in flight, "
                "got shards; use one or the other");
  in_flight_ = true;
  state_.follow_parameters();
}

std::function<void()> Optimizer::update_of(const Tensor& grads) {
  std::vector<ParamRange> parts;
  for (const StateSpan& span : state_.spans()) {
    // Gradients are asked and not data(), which would wait for the updates of other buckets.
    if (parameters_[span.members.front()].grad_state()->grad().same_storage(grads)) {
      append_parts(span, parts);
      for (const std::size_t i : span.members) {
        updates_[i] += takes_part(i) ? 1 : 0;
      }
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
  state_.follow_parameters();
  std::set<std::string> names;
  for (const autograd::Variable& parameter : parameters_) {
    BRIGADE_CHECK(names.insert(parameter.name()).second,
                  "optimizer: two parameters are named '{}', so a state cannot tell them apart; "
                  "register the models in one module and take its parameters()",
                  parameter.name());
  }
  NamedTensors result;
  for (std::size_t slot = 0; slot < state_names_.size(); ++slot) {
    const std::vector<Tensor> tensors = state_.by_parameter(slot);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      result.emplace_back(fmt::format("{}.{}", state_names_[slot], parameters_[i].name()),
                          tensors[i]);
    }
  }
  result.emplace_back("updates", Tensor::from(updates_, {std::ssize(updates_)}));
  return result;
}

void Optimizer::load_state(const NamedTensors& saved) {
  check_not_in_flight();
  const NamedTensors mine = state();
  copy_by_name(saved, mine, "optimizer");
  updates_ = mine.back().second.to_vector<std::int64_t>();
  for (std::size_t slot = 0; slot < state_names_.size(); ++slot) {
    std::vector<Tensor> loaded;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      loaded.push_back(mine[slot * parameters_.size() + i].second);
    }
    state_.load(slot, std::move(loaded));
  }
}

void Optimizer::zero_grad(GradMemory memory) {
  if (memory == GradMemory::discard) {
    check_not_in_flight();
    state_.follow_parameters();  // and no data(), which would wait for weights that still travel
    for (const StateSpan& span : state_.spans()) {
      joined(parameters_[span.members.front()].grad_state()->grad(),
             parameters_[span.members.back()].grad_state()->grad())
          .discard();
    }
  }
  for (const autograd::Variable& parameter : parameters_) {
    parameter.zero_grad();
  }
}

}  // namespace brigade::optim
