#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dist/comm/collectives.h"

/// What the all-reduce algorithms share: cutting a tensor up, and adding to it what arrives.
namespace brigade::dist {

/// Chunk `index` of `chunks` whose lengths differ by at most one element, as a flat view. Where
/// there are fewer elements than chunks, some are empty.
Tensor chunk_of(const Tensor& tensor, int chunks, int index);

/// Sums are added up in segments of at most this many bytes: while the processor adds one, the
/// kernel's socket buffers (a few MiB) go on moving the next ones. Adding 256 KiB takes some 50 µs,
/// in which a link of 10 Gbit/s moves 64 KiB, so the link never runs dry; the segment has just been
/// copied out of the kernel and still lies in a core's own cache; and what it costs, one more call
/// of poll(2), is a few µs against the 210 µs that it travels on such a link.
inline constexpr std::size_t kSegmentBytes = 256U << 10U;

/// `tensor` cut into flat views of at most kSegmentBytes; none if it is empty.
std::vector<Tensor> segments_of(const Tensor& tensor);

/// Memory for what arrives before it is added, kept from one all-reduce to the next. On a GPU the
/// communication stream may still work with it when the host asks for more, so nothing is given
/// back before the Scratch dies. Each new block is at least twice the largest before, so all
/// together are less than four times the largest request.
class Scratch {
 public:
  /// `numel` uninitialised elements; overwrites what the last call handed out.
  Tensor take(std::int64_t numel, const Tensor& like);

 private:
  std::vector<Tensor> blocks_;
};

/// Sends all of `outgoing`, and adds to the tensor of each of `sums` what comes from its peer, one
/// of them after the other, in this order. Matched like any exchange; either may be empty.
void exchange_and_add(Collectives& ranks, std::span<const Message> outgoing,
                      std::span<const Message> sums, Scratch& scratch);

}  // namespace brigade::dist
