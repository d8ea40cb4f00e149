#include "dist/ddp/replica_check.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "core/error.h"
#include "dist/comm/agreement.h"
#include "dist/comm/gather.h"

namespace brigade::dist {
namespace {

std::string layout_of(const autograd::Variable& parameter) {
  return fmt::format("{} {} {}", parameter.name(), parameter.data().dtype(), parameter.shape());
}

/// The largest (maximum − minimum) over the ranks of one element; ∞ if one is not finite.
double largest_spread(const Tensor& mine, Communicator& comm) {
  const std::vector<std::byte> all = comm.all_gather_bytes({mine.bytes(), mine.nbytes()});
  return dispatch_float(mine.dtype(), [&]<class T>() {
    std::vector<T> values(all.size() / sizeof(T));  // rank after rank
    std::memcpy(values.data(), all.data(), all.size());
    const auto count = static_cast<std::size_t>(mine.numel());
    double largest = 0.0;
    for (std::size_t i = 0; i < count; ++i) {
      double low = INFINITY;
      double high = -INFINITY;
      bool finite = true;
      for (std::size_t at = i; at < values.size(); at += count) {
        const double value = values[at];
        finite = finite && std::isfinite(value);
        low = std::min(low, value);
        high = std::max(high, value);
      }
      largest = finite ? std::max(largest, high - low) : INFINITY;
    }
    return largest;
  });
}

}  // namespace

void check_same_layout(const std::vector<autograd::Variable>& parameters,
                       const std::vector<autograd::Variable>& frozen,
                       const DataParallelOptions& options, const BucketPlan& plan,
                       Communicator& comm) {
  std::vector<std::string> lines{
      fmt::format("mode {}, buckets of {} bytes, {} parameters", to_string(options.mode),
                  options.bucket_bytes, parameters.size()),
      fmt::format("initial weights: {}",
                  options.init_sync == InitSync::verify ? "verify" : "broadcast"),
      fmt::format("find unused parameters: {}", options.find_unused_parameters ? "yes" : "no"),
      fmt::format("communication hook {}", options.hook->name())};
  std::transform(parameters.begin(), parameters.end(), std::back_inserter(lines), layout_of);
  std::transform(frozen.begin(), frozen.end(), std::back_inserter(lines),
                 [](const auto& parameter) { return layout_of(parameter) + " frozen"; });
  // Place by place, so that the first line that differs names a parameter.
  for (std::size_t bucket = 0; bucket < plan.size(); ++bucket) {
    for (const std::size_t member : plan[bucket]) {
      BRIGADE_CHECK(member < parameters.size(),
                    "data parallel: the plan of bucket {} has parameter number {} of {}", bucket,
                    member, parameters.size());
      lines.push_back(fmt::format("bucket {}: {}", bucket, parameters[member].name()));
    }
  }
  // Last, because a plan that only one rank was given should be told by its buckets.
  lines.push_back(
      fmt::format("buckets {}", options.plan.empty() ? "rebuilt once" : "never rebuilt"));
  check_same_lines("data parallel", lines, comm);
}

void check_same_values(const std::vector<autograd::Variable>& parameters, Communicator& comm,
                       Replicas replicas) {
  if (first_different(all_gather_values(comm, hash_parameters(parameters))) == 0) {
    return;
  }
  for (const autograd::Variable& parameter : parameters) {
    const Tensor mine = parameter.data().to(kCpu);
    const std::size_t rank =
        first_different(all_gather_values(comm, XXH3_64bits(mine.bytes(), mine.nbytes())));
    if (rank == 0) {
      continue;
    }
    throw VerificationError(fmt::format(
        "data parallel: parameter '{}' of rank {} differs from rank 0's: largest difference {:g}; "
        "{}",
        parameter.name(), rank, largest_spread(mine, comm),
        replicas == Replicas::initial
            ? "initialise all ranks alike (same seed, or nn::load of one file on every rank) or "
              "take "
              "rank 0's weights (InitSync::broadcast, --init-sync broadcast)"
            : "they began alike: expected the same flags on all ranks, all ranks in every "
              "backward, and memory that keeps its bits"));
  }
}

RankDifference largest_rank_difference(const std::vector<autograd::Variable>& parameters,
                                       Communicator& comm) {
  RankDifference result;
  for (const autograd::Variable& parameter : parameters) {
    const double largest = largest_spread(parameter.data().to(kCpu), comm);
    if (largest > result.value) {
      result = {.value = largest, .parameter = parameter.name()};
    }
  }
  return result;
}

void broadcast_parameters(const std::vector<autograd::Variable>& parameters, Communicator& comm) {
  for (const autograd::Variable& parameter : parameters) {
    const Tensor values = parameter.data().to(kCpu);
    comm.broadcast({values.bytes(), values.nbytes()}, 0);
    if (parameter.device().is_cuda()) {
      parameter.data().copy_from(values);
    }
  }
}

std::uint64_t hash_parameters(const std::vector<autograd::Variable>& parameters) {
  std::uint64_t hash = 0;
  for (const autograd::Variable& parameter : parameters) {
    const Tensor values = parameter.data().to(kCpu);
    hash = XXH3_64bits_withSeed(values.bytes(), values.nbytes(), hash);
  }
  return hash;
}

}  // namespace brigade::dist
