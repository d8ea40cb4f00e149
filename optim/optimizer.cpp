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
  std::ranges::sort(order, std::less<>(),
                    [&](std::size_t i) { return parameters[i].data().bytes(); });
  return order;
}

/// Whether `next` continues the span that ends with `last`, in the same layout.
bool continues(const autograd::Variable& last, const autograd::Variable& next) {
  const Tensor& last_grad = last.grad_state()->grad();
  const Tensor& next_grad = next.grad_state()->grad();
  return adjoins(last.data(), next.data()) && adjoins(last_grad, next_grad) &&
         next.data().byte_offset() - last.data().byte_offset() ==
             next_grad.byte_offset() - last_grad.byte_offset();
}

}  // namespace

std::vector<FlatSpan> flat_spans(const std::vector<autograd::Variable>& parameters) {
  std::vector<FlatSpan> spans;
  for (const std::size_t i : memory_order(parameters)) {
    parameters[i].grad_state()->allocate_grad();
    if (spans.empty() || !continues(parameters[spans.back().back()], parameters[i])) {
      spans.emplace_back();
    }
    spans.back().push_back(i);
  }
  return spans;
}

Optimizer::Optimizer(const std::vector<autograd::Variable>& parameters,
                     std::vector<std::string> state_names, const Rates& rates)
    : rates_(rates),
      parameters_(autograd::trainable(parameters)),
      state_names_(std::move(state_names)),
      state_(state_names_.size(), std::vector<Tensor>(parameters_.size())),
      updates_(parameters_.size()) {
  BRIGADE_CHECK(rates.weight_decay >= 0.0, "optimizer: expected weight_decay >= 0, got ",
                rates.weight_decay);
  set_lr(rates.lr);
  std::ranges::copy_if(parameters, std::back_inserter(frozen_),
                       [](const autograd::Variable& each) { return !each.requires_grad(); });
  find_spans();
}

/// The spans as parameters lie now, and for each a stretch of state in the same layout: zeros, or
/// what there was before. It is copied parameter by parameter, because neighbours may have parted,
/// and bit by bit, so training goes on as if nothing had moved. Padding is zero. An old stretch is
/// freed when the last parameter has left it, and its memory goes back to the system: no other
/// tensor has its size.
void Optimizer::find_spans() {
  spans_ = flat_spans(parameters_);
  std::ranges::sort(spans_, {}, [](const FlatSpan& span) { return span.front(); });
  for (const FlatSpan& span : spans_) {
    const Tensor& first = parameters_[span.front()].data();
    const Tensor all = joined(first, parameters_[span.back()].data());
    CachingAllocator& allocator = *Context::current().allocator(all.device());
    allocator.trim();  // of activations
    for (std::vector<Tensor>& state : state_) {
      const Tensor zeros = Tensor::zeros(all.shape(), all.dtype(), all.device());
      for (const std::size_t i : span) {
        const Tensor& data = parameters_[i].data();
        const std::size_t offset =
            (data.byte_offset() - first.byte_offset()) / size_of(data.dtype());
        const Tensor moved = zeros.flat_view(static_cast<std::int64_t>(offset), {data.numel()});
        if (state[i].defined()) {
          moved.copy_from(state[i]);
        }
        state[i] = moved;
      }
      allocator.trim();
    }
  }
  storage_versions_.clear();
  for (const autograd::Variable& parameter : parameters_) {
    storage_versions_.push_back(parameter.grad_state()->storage_version());
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
  return joined(state_[slot][part.first], state_[slot][part.last]);
}

void Optimizer::step(LocalGradients local) {
  check_gradients(local);
  follow_moved_parameters();
  ++steps_done_;
  parts_of_step_.clear();  // also of a step that has failed
  for (const FlatSpan& span : spans_) {
    append_parts(span, parts_of_step_);
  }
  for (const ParamRange& part : parts_of_step_) {
    update(part);
  }
  parts_of_step_.clear();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    count_update(i);
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

double Optimizer::weight_decay_of(std::size_t index) const {
  const bool decays = !rates_.decay_matrices_only || parameters_[index].shape().rank() > 1;
  return decays ? rates_.weight_decay : 0.0;
}

// One part per span where all decay alike. A span breaks around a parameter that is left alone
// (an update with a zero gradient would not do: momentum and weight decay move weights as well) and
// where parameters differ in weight decay or in their number of updates, which Adam's bias
// correction counts.
void Optimizer::append_parts(const FlatSpan& span, std::vector<ParamRange>& result) const {
  bool open = false;
  for (const std::size_t i : span) {
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
      last.last = i;
      last.data = joined(last.data, data);
      last.grad = joined(last.grad, grad);
    } else {
      result.push_back({i, i, step, rates_.lr, weight_decay, data.reshape({data.numel()}),
                        grad.reshape({grad.numel()})});
    }
    open = true;
  }
}

std::vector<ParamRange> Optimizer::parts() {
  check_not_in_flight();
  follow_moved_parameters();
  std::vector<ParamRange> result;
  for (const FlatSpan& span : spans_) {
    append_parts(span, result);
  }
  return result;
}

void Optimizer::begin_step() {
  in_flight_ = true;
  follow_moved_parameters();
  ++steps_done_;
}

std::function<void()> Optimizer::update_of(const Tensor& grads) {
  std::vector<ParamRange> parts;
  for (const FlatSpan& span : spans_) {
    // Gradients are asked and not data(), which would wait for the updates of other buckets.
    if (parameters_[span.front()].grad_state()->grad().same_storage(grads)) {
      append_parts(span, parts);
      std::ranges::for_each(span, [this](std::size_t i) { count_update(i); });
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

NamedTensors Optimizer::state() const {
  NamedTensors result;
  for (std::size_t slot = 0; slot < state_.size(); ++slot) {
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      result.emplace_back(message_of(state_names_[slot], '.', parameters_[i].name()),
                          state_[slot][i].reshape(parameters_[i].shape()));
    }
  }
  const Tensor updates = Tensor::empty({std::ssize(updates_)}, DType::i64);
  std::ranges::copy(updates_, updates.data<std::int64_t>());
  result.emplace_back("updates", updates);
  return result;
}

void Optimizer::load_state(const NamedTensors& saved) {
  check_not_in_flight();
  follow_moved_parameters();
  const NamedTensors mine = state();
  copy_by_name(saved, mine, "optimizer");
  updates_ = mine.back().second.to_vector<std::int64_t>();
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
