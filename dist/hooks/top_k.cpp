#include "dist/hooks/top_k.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
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

/// Room for k entries. A Tensor because that is what ranks exchange.
Tensor make_parcel(std::size_t k) {
  return Tensor::zeros({static_cast<std::int64_t>(k * sizeof(Entry))}, DType::u8);
}

std::span<Entry> entries(const Tensor& parcel) {
  return {reinterpret_cast<Entry*>(parcel.bytes()), parcel.nbytes() / sizeof(Entry)};
}

}  // namespace

struct TopK::State {
  State(const Tensor& bucket_grads, std::size_t k, const Communicator& comm)
      : grads(bucket_grads),
        error(Tensor::zeros(grads.shape())),
        order(static_cast<std::size_t>(grads.numel())) {
    for (int rank = 0; rank < comm.size(); ++rank) {
      parcels.push_back(make_parcel(k));
    }
    mine = parcels[static_cast<std::size_t>(comm.rank())];
    for (int rank = 0; rank < comm.size(); ++rank) {
      if (rank != comm.rank()) {
        outgoing.push_back({rank, mine});
        incoming.push_back({rank, parcels[static_cast<std::size_t>(rank)]});
      }
    }
  }

  /// On the communication stream's thread.
  void run(Collectives& ranks) {
    const std::span<float> gradient(grads.data<float>(), order.size());
    const std::span<float> left_out(error.data<float>(), order.size());
    std::transform(gradient.begin(), gradient.end(), left_out.begin(), gradient.begin(),
                   std::plus<>());
    pack(gradient);
    ranks.exchange(outgoing, incoming);

    std::copy(gradient.begin(), gradient.end(), left_out.begin());
    for (const Entry& entry : entries(mine)) {
      left_out[entry.place] = 0.0F;
    }
    std::fill(gradient.begin(), gradient.end(), 0.0F);
    for (const Tensor& parcel : parcels) {
      for (const Entry& entry : entries(parcel)) {
        gradient[entry.place] += entry.number;
      }
    }
  }

  /// The largest into `mine`, in order of place: those who add them up then walk through memory
  /// forwards.
  void pack(std::span<const float> gradient) {
    const std::span<Entry> chosen = entries(mine);
    const auto k = static_cast<std::ptrdiff_t>(chosen.size());
    std::iota(order.begin(), order.end(), 0U);
    std::nth_element(order.begin(), order.begin() + k, order.end(),
                     [gradient](std::uint32_t a, std::uint32_t b) {
                       return magnitude(gradient[a]) > magnitude(gradient[b]);
                     });
    std::sort(order.begin(), order.begin() + k);
    std::transform(order.begin(), order.begin() + k, chosen.begin(),
                   [gradient](std::uint32_t place) {
                     return Entry{place, gradient[place]};
                   });
  }

  Tensor grads;
  Tensor error;
  std::vector<std::uint32_t> order;  // places, the k largest gradients' first
  std::vector<Tensor> parcels;       // one per rank
  Tensor mine;
  std::vector<Message> outgoing, incoming;
};

TopK::TopK(double ratio) : ratio_(ratio) {
  BRIGADE_CHECK(ratio > 0.0 && ratio <= 1.0, "topk: expected a ratio above 0 and at most 1, got ",
                ratio);
}

std::string TopK::name() const {
  return message_of("topk:ratio=", ratio_);
}

void TopK::prepare(std::span<const autograd::Variable> /*parameters*/,
                   std::span<const Bucket> buckets, Communicator& comm) {
  states_.clear();
  for (const Bucket& bucket : buckets) {
    const Tensor& grads = bucket.grads;
    if (grads.device().is_cuda()) {
      throw UsageError(message_of("topk: chooses on the host, but the gradients are on ",
                                  grads.device(), "; use --comm-hook bf16 or powersgd there, or ",
                                  "--device cpu"));
    }
    BRIGADE_CHECK(grads.dtype() == DType::f32, "topk: expected gradients in f32, got ",
                  grads.dtype());
    BRIGADE_CHECK(grads.numel() <= std::numeric_limits<std::uint32_t>::max(), "topk: a bucket of ",
                  grads.numel(), " numbers has places beyond 32 bits; use a ",
                  "smaller --bucket-mb");
    const auto numbers = static_cast<double>(grads.numel());
    const auto k = static_cast<std::size_t>(std::min(std::ceil(ratio_ * numbers), numbers));
    states_.push_back(std::make_shared<State>(grads, k, comm));
  }
}

Work TopK::all_reduce(std::size_t index, const Chunk& piece, Communicator& comm) {
  return comm.enqueue(piece.grads, piece.label,
                      [state = states_.at(index)](Collectives& ranks) { state->run(ranks); });
}

}  // namespace brigade::dist
