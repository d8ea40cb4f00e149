#include "optim/flat_state.h"

#include <algorithm>

#include "core/runtime/context.h"

namespace brigade::optim {
namespace {

/// Copies from `by_parameter` what `span` keeps of it. Tensors of its members are gone afterwards.
void copy_to_span(std::size_t slot, std::vector<Tensor>& by_parameter, const StateSpan& span) {
  for (std::size_t k = 0; k < span.members.size(); ++k) {
    const Tensor source = std::exchange(by_parameter[span.members[k]], Tensor());
    const std::int64_t offset = span.offsets[k];
    const std::int64_t begin = std::max(offset, span.mine.begin);
    const std::int64_t end = std::min(offset + source.numel(), span.mine.begin + span.mine.count);
    if (begin < end) {
      span.slots[slot]
          .flat_view(begin - span.mine.begin, {end - begin})
          .copy_from(source.flat_view(begin - offset, {end - begin}));
    }
  }
}

}  // namespace

void FlatState::shard(Shards shards) {
  shards_ = std::move(shards);
  storage_versions_.clear();  // as if all parameters had moved
}

// Old memory goes back to the system as soon as the last parameter has left it: no other tensor has
// its size.
void FlatState::follow_parameters() {
  const auto version = [](const autograd::Variable& parameter) {
    return parameter.grad_state()->storage_version();
  };
  if (std::ranges::equal(parameters_, storage_versions_, {}, version)) {
    return;
  }
  std::vector<StateSpan> found;
  for (const FlatSpan& span : flat_spans(parameters_)) {
    const std::optional<Share> share = shards_ ? shards_->mine(span.numel) : std::nullopt;
    found.push_back({span, share.value_or(Share{0, span.numel}), share.has_value(), {}});
  }
  for (std::size_t slot = 0; slot < slots_; ++slot) {
    std::vector<Tensor> old = by_parameter(slot);
    for (StateSpan& span : spans_) {
      span.slots[slot] = Tensor();  // `old` has views of it
    }
    for (StateSpan& span : found) {
      const Tensor& data = parameters_[span.members.front()].data();
      span.slots.push_back(Tensor::zeros({span.mine.count}, data.dtype(), data.device()));
      if (!spans_.empty()) {
        copy_to_span(slot, old, span);
        Context::current().allocator(data.device())->trim();
      }
    }
  }
  spans_ = std::move(found);
  storage_versions_.resize(parameters_.size());
  std::ranges::transform(parameters_, storage_versions_.begin(), version);
}

std::vector<Tensor> FlatState::by_parameter(std::size_t slot) const {
  std::vector<Tensor> result(parameters_.size());
  for (const StateSpan& span : spans_) {
    Tensor whole = span.slots[slot];
    if (span.sharded) {
      whole = Tensor::zeros({span.numel}, whole.dtype(), whole.device());
      whole.flat_view(span.mine.begin, {span.mine.count}).copy_from(span.slots[slot]);
      shards_->all_gather(whole);
    }
    for (std::size_t k = 0; k < span.members.size(); ++k) {
      const std::size_t i = span.members[k];
      result[i] = whole.flat_view(span.offsets[k], parameters_[i].shape());
    }
  }
  return result;
}

void FlatState::load(std::size_t slot, std::vector<Tensor> by_parameter) {
  for (const StateSpan& span : spans_) {
    if (span.sharded) {  // otherwise these are views of it
      copy_to_span(slot, by_parameter, span);
    }
  }
}

std::size_t FlatState::nbytes() const {
  std::size_t bytes = 0;
  for (const StateSpan& span : spans_) {
    for (const Tensor& slot : span.slots) {
      bytes += slot.nbytes();
    }
  }
  return bytes;
}

}  // namespace brigade::optim
