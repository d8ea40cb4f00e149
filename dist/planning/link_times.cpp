#include "dist/planning/link_times.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>

#include "core/runtime/context.h"
#include "dist/planning/median.h"

namespace brigade::dist {
namespace {

using Ms = std::chrono::duration<double, std::milli>;
using std::chrono::steady_clock;

/// One after the other without a pause, for at least kLongEnoughMs before any counts: a link that
/// was idle may take its first bytes faster than the others. Then the median of as many.
LinkPoint measure(Communicator& comm, const Tensor& tensor) {
  constexpr double kLongEnoughMs = 10.0;
  constexpr double kMost = 100;
  Stream& stream = compute_stream(tensor.device());
  const auto all_reduce = [&] {
    comm.blocking_all_reduce(tensor, "measured");
    stream.synchronize();
  };
  comm.barrier();
  all_reduce();  // connects, allocates
  const auto before = steady_clock::now();
  all_reduce();
  const Ms first = steady_clock::now() - before;
  // Rank 0 knows for all of them how many it takes.
  const int times = broadcast_from_rank0(
      comm, std::vector{static_cast<int>(
                std::clamp(kLongEnoughMs / std::max(first.count(), 1e-6), 3.0, kMost))})[0];
  std::vector<double> spent;
  std::clock_t cpu_begin = 0;
  for (int i = -times; i < times; ++i) {
    cpu_begin = i == 0 ? std::clock() : cpu_begin;
    const auto begin = steady_clock::now();
    all_reduce();
    if (i >= 0) {
      spent.push_back(Ms(steady_clock::now() - begin).count());
    }
  }
  const double cpu_ms = 1e3 * static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  const LinkPoint point{.bytes = static_cast<double>(tensor.nbytes()),
                        .ms = median(std::move(spent)),
                        .cpu_ms = cpu_ms / times};
  return broadcast_from_rank0(comm, std::vector{point})[0];
}

}  // namespace

double LinkTimes::at(double bytes, double LinkPoint::*value) const {
  const auto above = std::ranges::lower_bound(points_, bytes, {}, &LinkPoint::bytes);
  if (above == points_.begin() || points_.size() == 1) {
    return points_.front().*value;
  }
  const auto high = above == points_.end() ? std::prev(above) : above;
  const auto low = std::prev(high);
  const double slope = ((*high).*value - (*low).*value) / (high->bytes - low->bytes);
  return (*low).*value + slope * (bytes - low->bytes);
}

LinkTimes measure_link(Communicator& comm, Device device, std::size_t most_bytes) {
  constexpr std::size_t kSmallest = std::size_t{16} << 10U;
  constexpr std::size_t kFactor = 4;
  constexpr double kLongEnoughMs = 50.0;
  std::vector<LinkPoint> points;
  for (std::size_t bytes = kSmallest;; bytes = std::min(bytes * kFactor, most_bytes)) {
    const auto numel = static_cast<std::int64_t>(bytes / sizeof(float));
    const Tensor tensor = comm.make_buffer({numel}, DType::f32, device);
    tensor.zero();
    points.push_back(measure(comm, tensor));
    if (bytes >= most_bytes || points.back().ms > kLongEnoughMs) {
      break;
    }
  }
  comm.take_collectives();  // the records of a step must not include these
  comm.take_waits();
  return LinkTimes(std::move(points));
}

}  // namespace brigade::dist
