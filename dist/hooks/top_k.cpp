#include "dist/hooks/top_k.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>

#include "core/error.h"

namespace brigade::dist {
namespace {

/// One number on its way. Eight bytes without padding.
struct Entry {
  std::uint32_t place = 0;
  float number = 0.0F;
};

/// |x| as an integer that orders as |x| does. NaN, which compares with nothing, comes out on top.
std::uint32_t magnitude(float x) {
  return std::bit_cast<std::uint32_t>(x) & 0x7fffffffU;
}

/// Room for k entries. A Tensor because ranks exchange tensors.
Tensor make_buffer(std::size_t k) {
  return Tensor::zeros({static_cast<std::int64_t>(k * sizeof(Entry))}, DType::u8);
}

std::span<Entry> entries(const Tensor& buffer) {
  return {reinterpret_cast<Entry*>(buffer.bytes()), buffer.nbytes() / sizeof(Entry)};
}

struct State {
  State(const Tensor& bucket_grads, std::size_t k, const Communicator& comm)
      : grads(bucket_grads),
        error(Tensor::zeros(grads.shape())),
        order(static_cast<std::size_t>(grads.numel())),
        mine(make_buffer(k)) {
    for (int rank = 0; rank < comm.size(); ++rank) {
      buffers.push_back(rank == comm.rank() ? mine : make_buffer(k));
      if (rank != comm.rank()) {
        outgoing.push_back({rank, mine});
        incoming.push_back({rank, buffers.back()});
      }
    }
  }

  /// On the communication stream's thread.
  void run(Collectives& ranks) {
    const std::span<float> gradient(grads.data<float>(), order.size());
    const std::span<float> left_out(error.data<float>(), order.size());
    std::ranges::transform(gradient, left_out, gradient.begin(), std::plus<>());
    choose(gradient);
    ranks.exchange(outgoing, incoming);

    std::ranges::copy(gradient, left_out.begin());
    for (const Entry& entry : entries(mine)) {
      left_out[entry.place] = 0.0F;
    }
    std::ranges::fill(gradient, 0.0F);
    for (const Tensor& buffer : buffers) {
      for (const Entry& entry : entries(buffer)) {
        gradient[entry.place] += entry.number;
      }
    }
  }

  /// Writes the k largest to `mine`, in order of place, so that adding them reads memory forwards.
  void choose(std::span<const float> gradient) {
    const std::span<Entry> chosen = entries(mine);
    std::iota(order.begin(), order.end(), 0U);
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(chosen.size());
    std::ranges::nth_element(order, end, std::ranges::greater(),
                             [&](std::uint32_t place) { return magnitude(gradient[place]); });
    std::sort(order.begin(), end);
    std::transform(order.begin(), end, chosen.begin(), [&](std::uint32_t place) {
      return Entry{place, gradient[place]};
    });
  }

  Tensor grads;
  Tensor error;
  std::vector<std::uint32_t> order;  // places, the k largest gradients' first
  Tensor mine;
  std::vector<Tensor> buffers;  // by rank
  std::vector<Message> outgoing, incoming;
};

}  // namespace

TopK::TopK(double ratio) : ratio_(ratio) {
  BRIGADE_CHECK(ratio > 0.0 && ratio <= 1.0, "topk: expected a ratio above 0 and at most 1, got {}",
                ratio);
}

std::string TopK::name() const {
  return fmt::format("topk:ratio={}", ratio_);
}

BucketHook::Reduction TopK::make_reduction(std::span<const autograd::Variable> parameters,
                                           const Bucket& bucket, const Communicator& comm) {
  const Tensor& grads = bucket.grads;
  if (grads.device().is_cuda()) {
    throw UsageError(
        fmt::format("topk: chooses on the host, but the gradients are on {}; use --comm-hook bf16 "
                    "or powersgd there, or --device cpu",
                    grads.device()));
  }
  BRIGADE_CHECK(grads.dtype() == DType::f32, "topk: expected gradients in f32, got {}",
                grads.dtype());
  BRIGADE_CHECK(grads.numel() <= std::numeric_limits<std::uint32_t>::max(),
                "topk: a bucket of {} numbers has places beyond 32 bits; use a smaller --bucket-mb",
                grads.numel());
  const auto numbers = static_cast<double>(grads.numel());
  const auto k = static_cast<std::size_t>(std::min(std::ceil(ratio_ * numbers), numbers));
  const auto state = std::make_shared<State>(grads, k, comm);
  NamedTensors kept;  // from one step to the next
  std::int64_t offset = 0;
  for (const std::size_t member : bucket.members) {
    const Tensor& parameter = parameters[member].data();
    kept.emplace_back("error." + parameters[member].name(),
                      state->error.flat_view(offset, parameter.shape()));
    offset += static_cast<std::int64_t>(slice_bytes(parameter) / sizeof(float));
  }
  return {.run = [state](Collectives& ranks) { state->run(ranks); }, .state = std::move(kept)};
}

}  // namespace brigade::dist
