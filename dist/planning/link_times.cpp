#include "dist/planning/link_times.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>

#include "core/runtime/context.h"

namespace brigade::dist {
namespace {

/// The shortest of some all-reduces of `tensor`.
double shortest_ms(Communicator& comm, const Tensor& tensor) {
  constexpr int kTimes = 3;
  Stream& stream = compute_stream(tensor.device());
  double shortest = std::numeric_limits<double>::max();
  for (int i = -1; i < kTimes; ++i) {  // the first one warms up
    stream.synchronize();
    comm.barrier();
    const auto begin = std::chrono::steady_clock::now();
    comm.blocking_all_reduce(tensor, "measured");
    stream.synchronize();
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin;
    shortest = i < 0 ? shortest : std::min(shortest, spent.count());
  }
  return broadcast_from_rank0(comm, std::vector{shortest})[0];
}

}  // namespace

double LinkTimes::ms(std::size_t bytes) const {
  const auto size = static_cast<double>(bytes);
  const auto above = std::ranges::lower_bound(points_, size, {}, &std::pair<double, double>::first);
  if (above == points_.begin() || points_.size() == 1) {
    return points_.front().second;
  }
  const auto high = above == points_.end() ? std::prev(above) : above;
  const auto low = std::prev(high);
  const double slope = (high->second - low->second) / (high->first - low->first);
  return low->second + slope * (size - low->first);
}

LinkTimes measure_link(Communicator& comm, Device device, std::size_t most_bytes) {
  constexpr std::size_t kSmallest = std::size_t{16} << 10U;
  constexpr std::size_t kFactor = 4;
  constexpr double kLongEnoughMs = 50.0;
  std::vector<std::pair<double, double>> points;
  for (std::size_t bytes = kSmallest;; bytes = std::min(bytes * kFactor, most_bytes)) {
    const auto numel = static_cast<std::int64_t>(bytes / sizeof(float));
    const Tensor tensor = comm.make_buffer({numel}, DType::f32, device);
    tensor.zero();
    points.emplace_back(static_cast<double>(bytes), shortest_ms(comm, tensor));
    if (bytes >= most_bytes || points.back().second > kLongEnoughMs) {
      break;
    }
  }
  comm.take_collectives();  // the records of a step must not include these
  comm.take_waits();
  return LinkTimes(std::move(points));
}

}  // namespace brigade::dist
