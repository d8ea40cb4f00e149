#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dist/algorithms/scratch.h"
#include "dist/comm/collectives.h"

/// Shared by the all-reduce algorithms: segments of a tensor, and adding received data.
namespace brigade::dist {

/// Received data is added in segments of at most this many bytes. While the processor adds one
/// segment, the kernel's socket buffers (a few MiB) transfer the next ones. Adding 256 KiB takes
/// about 50 µs, in which a 10 Gbit/s link moves 64 KiB, so the link is never idle. The segment is
/// still in the core's cache after the copy from the kernel. The cost per segment is one poll(2), a
/// few µs, compared with 210 µs of transfer.
inline constexpr std::size_t kSegmentBytes = 256U << 10U;

/// `tensor` cut into flat views of at most kSegmentBytes; none if it is empty.
std::vector<Tensor> segments_of(const Tensor& tensor);

/// Sends all of `outgoing`, and adds to each tensor of `sums` what its peer sends, in the order of
/// `sums`. Matched like Collectives::exchange; either list may be empty.
void exchange_and_add(Collectives& ranks, std::span<const Message> outgoing,
                      std::span<const Message> sums, Scratch& scratch);

}  // namespace brigade::dist
