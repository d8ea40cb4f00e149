#include "dist/planning/link_times.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>
#include <thread>

#include "core/runtime/context.h"
#include "dist/comm/gather.h"
#include "dist/planning/median.h"

namespace brigade::dist {
namespace {

constexpr double kLongMs = 50.0;

double all_reduce_ms(Communicator& comm, const Tensor& tensor) {
  const auto begin = std::chrono::steady_clock::now();
  comm.blocking_all_reduce(tensor, "measured");
  compute_stream(tensor.device()).synchronize();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

/// Where nobody waits urgently, a communicator may sleep between two looks at its messages.
double all_reduce_cpu_ms(Communicator& comm, const Tensor& tensor) {
  const std::clock_t begin = std::clock();
  comm.all_reduce(tensor, "measured").done_event().synchronize(/*urgent=*/false);
  return 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

/// One after the other without a pause, for at least 10 ms before any counts, so that the link is
/// never idle. Then the median of as many.
LinkPoint measure(Communicator& comm, const Tensor& tensor) {
  constexpr double kMs = 10.0;
  constexpr double kMost = 100;
  comm.barrier();
  all_reduce_ms(comm, tensor);  // connects, allocates
  // Rank 0 knows for all of them how long it takes.
  const double first = broadcast_from_rank0(comm, std::vector{all_reduce_ms(comm, tensor)})[0];
  const double fewest = first < kLongMs ? 3.0 : 1.0;
  const int times = static_cast<int>(std::clamp(kMs / std::max(first, 1e-6), fewest, kMost));
  for (int i = 0; first < kMs && i < times; ++i) {
    all_reduce_ms(comm, tensor);
  }
  std::vector<double> ms(static_cast<std::size_t>(times));
  std::vector<double> cpu_ms(ms.size());
  std::ranges::generate(ms, [&] { return all_reduce_ms(comm, tensor); });
  std::ranges::generate(cpu_ms, [&] { return all_reduce_cpu_ms(comm, tensor); });
  const LinkPoint point{.bytes = static_cast<double>(tensor.nbytes()),
                        .ms = median(std::move(ms)),
                        .cpu_ms = median(std::move(cpu_ms))};
  return broadcast_from_rank0(comm, std::vector{point})[0];
}

/// How much a pause helps an all-reduce that otherwise takes `busy_ms`. None if it does not every
/// time: that is noise.
double measure_head_start(Communicator& comm, const Tensor& tensor, double busy_ms) {
  constexpr double kLeast = 0.05;  // of busy_ms
  std::vector<double> gains;
  for (int i = 0; busy_ms < kLongMs && i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(busy_ms));
    comm.barrier();
    gains.push_back(busy_ms - all_reduce_ms(comm, tensor));
  }
  const bool helps = !gains.empty() && std::ranges::min(gains) > kLeast * busy_ms;
  return broadcast_from_rank0(comm, std::vector{helps ? median(std::move(gains)) : 0.0})[0];
}

}  // namespace

double LinkTimes::at(double bytes, double LinkPoint::*value) const {
  const auto above = std::ranges::lower_bound(points_, bytes, {}, &LinkPoint::bytes);
  if (above == points_.begin() || points_.size() == 1) {
    return points_.front().*value;
  }
  const auto high = above == points_.end() ? std::prev(above) : above;
  const auto low = std::prev(high);
  const double slope = std::max((*high).*value - (*low).*value, 0.0) / (high->bytes - low->bytes);
  return (*low).*value + slope * (bytes - low->bytes);
}

LinkTimes measure_link(Communicator& comm, const Tensor& memory) {
  constexpr std::int64_t kSmallest = 64;  // numbers
  constexpr int kFactor = 8;
  memory.zero();
  std::vector<LinkPoint> points;
  double head_start_ms = 0.0;
  std::int64_t numel = std::min(kSmallest, memory.numel());
  while (true) {
    const Tensor piece = memory.flat_view(0, {numel});
    points.push_back(measure(comm, piece));
    const double ms = points.back().ms;
    const double more = points.size() > 1 ? ms - points[points.size() - 2].ms : 0.0;
    if (numel == memory.numel() || ms > kLongMs || ms + kFactor * more > 2.0 * kLongMs) {
      head_start_ms = measure_head_start(comm, piece, ms);
      break;
    }
    // The last two points must lie apart: their slope is that of all larger sizes.
    numel = 2 * kFactor * numel > memory.numel() ? memory.numel() : kFactor * numel;
  }
  comm.times().collectives.clear();  // the records of a step must not include these
  comm.times().waits.clear();
  return LinkTimes(std::move(points), head_start_ms);
}

}  // namespace brigade::dist
