#include "optim/optimizer.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/error.h"

namespace brigade::optim {
namespace {

/// Whether `next` begins where `end_offset` lies, up to `kMaxPadding` bytes that align it.
constexpr std::size_t kMaxPadding = 64;
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

}  // namespace

std::vector<FlatSpan> flat_spans(const std::vector<autograd::Variable>& parameters) {
  std::vector<FlatSpan> spans;
  for (const std::size_t i : memory_order(parameters)) {
    autograd::GradState& state = *parameters[i].grad_state();
    if (!state.grad.defined()) {
      state.grad = Tensor::zeros(state.shape, state.dtype, state.device);
    }
    const Tensor& data = parameters[i].data();
    if (!spans.empty() && continues(spans.back(), data, state.grad)) {
      FlatSpan& last = spans.back();
      last.data = joined(last.data, data);
      last.grad = joined(last.grad, state.grad);
      last.members.push_back(i);
    } else {
      spans.push_back({data.reshape({data.numel()}), state.grad.reshape({data.numel()}), {i}});
    }
  }
  return spans;
}

Optimizer::Optimizer(std::vector<autograd::Variable> parameters)
    : parameters_(std::move(parameters)), spans_(flat_spans(parameters_)) {}

void Optimizer::step() {
  for (const autograd::Variable& parameter : parameters_) {
    const autograd::GradState& state = *parameter.grad_state();
    BRIGADE_CHECK(state.filled, "optimizer: parameter '", state.name,
                  "' has no gradient: call backward first, on a loss "
                  "that depends on it");
    BRIGADE_CHECK(state.synchronized, "optimizer: the gradient of '", state.name,
                  "' was never synchronised over the "
                  "ranks: every backward since zero_grad ran inside no_sync()");
  }
  for (const FlatSpan& span : spans_) {
    const autograd::Variable& first = parameters_[span.members.front()];
    BRIGADE_CHECK(first.data().bytes() == span.data.bytes() &&
                      first.grad_state()->grad.bytes() == span.grad.bytes(),
                  "optimizer: parameter '", first.name(),
                  "' has moved in memory since the optimizer was made; make the optimizer after "
                  "DataParallel");
  }
  ++steps_done_;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    update(i, spans_[i]);
  }
}

void Optimizer::zero_grad() {
  for (const autograd::Variable& parameter : parameters_) {
    parameter.zero_grad();
  }
}

}  // namespace brigade::optim
