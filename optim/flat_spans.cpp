#include "optim/flat_spans.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace brigade::optim {
namespace {

constexpr std::size_t kMaxPadding = 64;  // bytes

/// Whether `next` begins where `before` ends, but for padding that aligns it.
bool adjoins(const Tensor& before, const Tensor& next) {
  const std::size_t end = before.byte_offset() + before.nbytes();
  return before.same_storage(next) && before.dtype() == next.dtype() && next.byte_offset() >= end &&
         next.byte_offset() - end < kMaxPadding;
}

/// Parameter numbers in the order in which their data lie in memory. One without elements lies
/// where the next one does.
std::vector<std::size_t> memory_order(const std::vector<autograd::Variable>& parameters) {
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, std::less<>(), [&](std::size_t i) {
    const Tensor& data = parameters[i].data();
    return std::pair(data.bytes(), data.nbytes());
  });
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

Tensor joined(const Tensor& first, const Tensor& last) {
  const std::size_t bytes = last.byte_offset() + last.nbytes() - first.byte_offset();
  return first.spanning(static_cast<std::int64_t>(bytes / size_of(first.dtype())));
}

std::vector<FlatSpan> flat_spans(const std::vector<autograd::Variable>& parameters) {
  std::vector<FlatSpan> spans;
  for (const std::size_t i : memory_order(parameters)) {
    parameters[i].grad_state()->allocate_grad();
    if (spans.empty() || !continues(parameters[spans.back().members.back()], parameters[i])) {
      spans.emplace_back();
    }
    FlatSpan& span = spans.back();
    span.members.push_back(i);
    const Tensor& data = parameters[i].data();
    span.numel = joined(parameters[span.members.front()].data(), data).numel();
    span.offsets.push_back(span.numel - data.numel());
  }
  std::ranges::sort(spans, {}, [](const FlatSpan& span) { return span.members.front(); });
  return spans;
}

}  // namespace brigade::optim
