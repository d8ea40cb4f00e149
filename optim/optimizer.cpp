#include "optim/optimizer.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/runtime/context.h"

namespace brigade::optim {
namespace {

constexpr std::size_t kMaxPadding = 64;  // bytes

/// Whether `next` begins where `before` ends, but for padding that aligns it.
bool adjoins(const Tensor& before, const Tensor& next) {
  const std::size_t end = before.byte_offset() + before.nbytes();
  return before.same_storage(next) && before.dtype() == next.dtype() && next.byte_offset() >= end &&
         next.byte_offset() - end < kMaxPadding;
}

/// The stretch from the first byte of `first` to the last of `last`, as one flat tensor.
Tensor joined(const Tensor& first, const Tensor& last) {
  const std::size_t bytes = last.byte_offset() + last.nbytes() - first.byte_offset();
  return first.spanning(static_cast<std::int64_t>(bytes / size_of(first.dtype())));
}

/// Parameter numbers in the order in which their data lie in memory.
std::vector<std::size_t> memory_order(const std::vector<autograd::Variable>& parameters) {
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::less<>()(parameters[a].data().bytes(), parameters[b].data().bytes());
  });
  return order;
}

/// Whether `data` and `grad` continue the span with the same layout.
bool continues(const FlatSpan& span, const Tensor& data, const Tensor& grad) {
  return adjoins(span.data, data) && adjoins(span.grad, grad) &&
         data.byte_offset() - span.data.byte_offset() ==
             grad.byte_offset() - span.grad.byte_offset();
}

/// Zeros in the shape of each span.
std::vector<Tensor> zeros_like(const std::vector<FlatSpan>& spans) {
  std::vector<Tensor> zeros;
  zeros.reserve(spans.size());
  for (const FlatSpan& span : spans) {
    zeros.push_back(Tensor::zeros(span.data.shape(), span.data.dtype(), span.data.device()));
  }
  return zeros;
}

/// Of each parameter, its slice of one state tensor per span.
std::vector<Tensor> slices(const std::vector<FlatSpan>& spans, const std::vector<Tensor>& state,
                           const std::vector<autograd::Variable>& parameters) {
  std::vector<Tensor> result(parameters.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    for (std::size_t k = 0; k < spans[i].members.size(); ++k) {
      const std::size_t member = spans[i].members[k];
      const std::size_t offset = spans[i].offsets[k] / size_of(state[i].dtype());
      result[member] = state[i].flat_view(static_cast<std::int64_t>(offset),
                                          {parameters[member].data().numel()});
    }
  }
  return result;
}

}  // namespace

std::vector<FlatSpan> flat_spans(const std::vector<autograd::Variable>& parameters) {
  std::vector<FlatSpan> spans;
  for (const std::size_t i : memory_order(parameters)) {
    const Tensor& data = parameters[i].data();
    const Tensor& grad = parameters[i].grad_state()->allocate_grad();
    if (!spans.empty() && continues(spans.back(), data, grad)) {
      FlatSpan& last = spans.back();
      last.offsets.push_back(data.byte_offset() - last.data.byte_offset());
      last.data = joined(last.data, data);
      last.grad = joined(last.grad, grad);
      last.members.push_back(i);
    } else {
      spans.push_back({data.reshape({data.numel()}), grad.reshape({data.numel()}), {i}, {0}});
    }
  }
  return spans;
}

Optimizer::Optimizer(const std::vector<autograd::Variable>& parameters, std::size_t state_tensors)
    : parameters_(autograd::trainable(parameters)), updates_(parameters_.size()) {
  std::ranges::copy_if(parameters, std::back_inserter(frozen_),
                       [](const autograd::Variable& each) { return !each.requires_grad(); });
  find_spans(state_tensors);
}

/// The spans as parameters lie now, and state of zeros for them.
void Optimizer::find_spans(std::size_t state_tensors) {
  spans_ = flat_spans(parameters_);
  state_.clear();
  for (std::size_t slot = 0; slot < state_tensors; ++slot) {
    state_.push_back(zeros_like(spans_));
  }
  for (FlatSpan& span : spans_) {
    span.data = Tensor();
    span.grad = Tensor();
  }
  storage_versions_.clear();
  for (const autograd::Variable& parameter : parameters_) {
    storage_versions_.push_back(parameter.grad_state()->storage_version());
  }
}

bool Optimizer::parameters_moved() const {
  return !std::equal(parameters_.begin(), parameters_.end(), storage_versions_.begin(),
                     [](const autograd::Variable& parameter, std::size_t version) {
                       return parameter.grad_state()->storage_version() == version;
                     });
}

// Parameter by parameter, because neighbours may have parted. Copies bits, so training goes on as
// if nothing had moved; the padding between parameters is zero as at the start.
void Optimizer::follow_moved_parameters() {
  if (!parameters_moved()) {
    return;
  }
  const std::vector<FlatSpan> before = std::move(spans_);
  const std::vector<std::vector<Tensor>> old = std::move(state_);
  find_spans(old.size());
  for (std::size_t slot = 0; slot < old.size(); ++slot) {
    const std::vector<Tensor> from = slices(before, old[slot], parameters_);
    const std::vector<Tensor> to = slices(spans_, state_[slot], parameters_);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      to[i].copy_from(from[i]);
    }
  }
}

void Optimizer::step(LocalGradients local) {
  check_gradients(local);
  follow_moved_parameters();
  ++steps_done_;
  parts_of_step_.clear();  // also of a step that has failed
  for (std::size_t s = 0; s < spans_.size(); ++s) {
    append_parts(s, parts_of_step_);
  }
  for (const ParamRange& part : parts_of_step_) {
    update(part);
  }
  parts_of_step_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    count_update(i);
  }
}

void Optimizer::count_update(std::size_t index) {
  updates_[index] += takes_part(index) ? 1 : 0;
}

void Optimizer::check_not_in_flight() const {
  BRIGADE_CHECK(!in_flight_,
                "optimizer: expected neither step() nor clipping while buckets are updated in "
                "flight: the gradients may have been used already");
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

// Nearly always one part per span. A span breaks into several around a parameter that is left alone
// (an update with a zero gradient would not do: momentum and weight decay move weights as well) and
// where parameters differ in their number of updates, because Adam's bias correction counts them.
void Optimizer::append_parts(std::size_t span_index, std::vector<ParamRange>& result) const {
  const FlatSpan& span = spans_[span_index];
  bool open = false;
  for (std::size_t k = 0; k < span.members.size(); ++k) {
    const std::size_t i = span.members[k];
    const std::int64_t step = updates_[i] + 1;
    if (!takes_part(i)) {
      open = false;
      continue;
    }
    const Tensor& data = parameters_[i].data();
    const Tensor& grad = parameters_[i].grad_state()->grad();
    if (open && result.back().step == step) {
      result.back().data = joined(result.back().data, data);
      result.back().grad = joined(result.back().grad, grad);
    } else {
      result.push_back(
          {.span = span_index,
           .offset = static_cast<std::int64_t>(span.offsets[k] / size_of(data.dtype())),
           .step = step,
           .data = data.reshape({data.numel()}),
           .grad = grad.reshape({grad.numel()})});
    }
    open = true;
  }
}

// In the order of their first parameters, as what is added up over them must be the same on all
// ranks; the spans' own order is that of addresses.
std::vector<ParamRange> Optimizer::parts() {
  check_not_in_flight();
  follow_moved_parameters();
  std::vector<std::size_t> order(spans_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [this](std::size_t s) { return spans_[s].members.front(); });
  std::vector<ParamRange> result;
  for (const std::size_t s : order) {
    append_parts(s, result);
  }
  return result;
}

void Optimizer::begin_step() {
  in_flight_ = true;
  follow_moved_parameters();
  ++steps_done_;
}

std::function<void()> Optimizer::update_of(const Tensor& memory) {
  const auto start_of = [this](const FlatSpan& span) -> const Tensor& {
    return parameters_[span.members.front()].data();
  };
  // Spans are in the order of their addresses.
  auto span = std::lower_bound(spans_.begin(), spans_.end(), memory.bytes(),
                               [&](const FlatSpan& one, const std::byte* address) {
                                 return std::less<>()(start_of(one).bytes(), address);
                               });
  std::vector<ParamRange> parts;
  for (; span != spans_.end() && start_of(*span).same_storage(memory); ++span) {
    append_parts(static_cast<std::size_t>(span - spans_.begin()), parts);
    for (const std::size_t i : span->members) {
      count_update(i);
    }
  }
  BRIGADE_CHECK(!parts.empty(),
                "optimizer: asked to update memory that is none of its parameters'");
  return [this, parts = std::move(parts)] {
    for (const ParamRange& part : parts) {
      update(part);
    }
  };
}

std::size_t Optimizer::state_bytes() const {
  std::size_t bytes = 0;
  for (const std::vector<Tensor>& tensors : state_) {
    for (const Tensor& tensor : tensors) {
      bytes += tensor.nbytes();
    }
  }
  return bytes;
}

void Optimizer::zero_grad() {
  for (const autograd::Variable& parameter : parameters_) {
    parameter.zero_grad();
  }
}

}  // namespace brigade::optim
