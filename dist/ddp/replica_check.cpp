#include "dist/ddp/replica_check.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "core/error.h"

namespace brigade::dist {
namespace {

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {tensor.bytes(), tensor.nbytes()};
}
std::uint64_t hash_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

/// The first rank whose value differs from rank 0's; 0 when all agree. The same answer on every
/// rank.
int first_different(const std::vector<std::uint64_t>& hashes) {
  const auto found = std::find_if(hashes.begin(), hashes.end(),
                                  [&](std::uint64_t hash) { return hash != hashes[0]; });
  return found == hashes.end() ? 0 : static_cast<int>(found - hashes.begin());
}

std::string layout_of(const autograd::Variable& parameter) {
  return message_of(parameter.name(), ' ', parameter.data().dtype(), ' ', parameter.shape());
}

/// Rank `from`'s text, padded on every rank to one length for the broadcast.
std::string text_of_rank(std::string text, int from, Communicator& comm) {
  constexpr std::size_t kLength = 256;
  text.resize(kLength);
  comm.broadcast(std::as_writable_bytes(std::span(text)), from);
  return text.c_str();
}

double largest_difference(const Tensor& mine, const Tensor& other) {
  return dispatch_float(mine.dtype(), [&]<class T>() {
    double largest = 0.0;
    for (std::int64_t i = 0; i < mine.numel(); ++i) {
      const double difference = std::abs(static_cast<double>(mine.data<T>()[i]) -
                                         static_cast<double>(other.data<T>()[i]));
      largest = std::max(largest, std::isnan(difference) ? INFINITY : difference);
    }
    return largest;
  });
}

/// The largest (maximum − minimum) over the ranks of one element; `all` holds rank after rank.
template <class T>
double largest_spread(const std::vector<std::byte>& all, int ranks) {
  std::vector<T> values(all.size() / sizeof(T));
  std::memcpy(values.data(), all.data(), all.size());
  const std::size_t count = values.size() / static_cast<std::size_t>(ranks);
  double largest = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    double low = values[i];
    double high = values[i];
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
}

}  // namespace

void check_same_lines(std::string_view subject, const std::vector<std::string>& lines,
                      Communicator& comm) {
  std::string whole;
  for (const std::string& line : lines) {
    whole += line + '\n';
  }
  const int other =
      first_different(all_gather_values(comm, hash_of(std::as_bytes(std::span(whole)))));
  if (other == 0) {
    return;
  }
  // Ranks may have different numbers of lines; all walk as many as the one with the fewest.
  const std::vector<std::size_t> counts = all_gather_values(comm, lines.size());
  const std::size_t shared = *std::min_element(counts.begin(), counts.end());
  for (std::size_t i = 0; i < shared; ++i) {
    const int rank =
        first_different(all_gather_values(comm, hash_of(std::as_bytes(std::span(lines[i])))));
    if (rank > 0) {
      const std::string expected = text_of_rank(lines[i], 0, comm);
      const std::string got = text_of_rank(lines[i], rank, comm);
      throw VerificationError(message_of(subject, ": the ranks disagree: rank 0 has '", expected,
                                         "', rank ", rank, " has '", got,
                                         "'; start every rank with the same program and flags"));
    }
  }
  throw VerificationError(message_of(subject, ": the ranks disagree: rank ", other, " has ",
                                     counts[static_cast<std::size_t>(other)], " lines, rank 0 has ",
                                     counts[0]));
}

void check_same_layout(const std::vector<autograd::Variable>& parameters,
                       const std::vector<autograd::Variable>& frozen,
                       const DataParallelOptions& options, const BucketPlan& plan,
                       Communicator& comm) {
  std::vector<std::string> lines{
      message_of("mode ", to_string(options.mode), ", buckets of ", options.bucket_bytes,
                 " bytes, ", parameters.size(), " parameters"),
      message_of("buckets by ", to_string(bucket_policy(options)),
                 options.split_tensors
                     ? message_of(", larger ones split, pieces of ",
                                  options.piece_bytes.value_or(options.bucket_bytes), " bytes")
                     : ""),
      message_of("find unused parameters: ", options.find_unused_parameters ? "yes" : "no"),
      message_of("communication hook ", options.hook->name())};
  std::transform(parameters.begin(), parameters.end(), std::back_inserter(lines), layout_of);
  std::transform(frozen.begin(), frozen.end(), std::back_inserter(lines),
                 [](const auto& parameter) { return layout_of(parameter) + " frozen"; });
  // Place by place, so that the first line that differs names a parameter.
  for (std::size_t bucket = 0; bucket < plan.size(); ++bucket) {
    for (const std::size_t member : plan[bucket]) {
      BRIGADE_CHECK(member < parameters.size(), "data parallel: the plan of bucket ", bucket,
                    " has parameter number ", member, " of ", parameters.size());
      lines.push_back(message_of("bucket ", bucket, ": ", parameters[member].name()));
    }
  }
  // Last, because a plan that only one rank was given should be told by its buckets.
  const bool rebuilt = options.rebuild_buckets && options.plan.empty();
  lines.push_back(message_of("buckets ", rebuilt ? "rebuilt once" : "never rebuilt"));
  check_same_lines("data parallel", lines, comm);
}

void check_same_values(const std::vector<autograd::Variable>& parameters, Communicator& comm,
                       Replicas replicas) {
  const int different = first_different(all_gather_values(comm, hash_parameters(parameters)));
  if (different == 0) {
    return;
  }
  for (const autograd::Variable& parameter : parameters) {
    const Tensor mine = parameter.data().to(kCpu);
    const int rank = first_different(all_gather_values(comm, hash_of(bytes_of(mine))));
    if (rank == 0) {
      continue;
    }
    const Tensor other = mine.clone();
    comm.broadcast({other.bytes(), other.nbytes()}, rank);
    const Tensor root = mine.clone();
    comm.broadcast({root.bytes(), root.nbytes()}, 0);
    throw VerificationError(message_of(
        "data parallel: parameter '", parameter.name(), "' of rank ", rank,
        " differs from rank 0's: largest difference ", largest_difference(other, root), "; ",
        replicas == Replicas::initial
            ? "initialise all ranks alike (same --seed or --init file) or use --init-sync broadcast"
            : "they began alike: expected the same flags on all ranks, all ranks in every "
              "backward, and memory that keeps its bits"));
  }
}

RankDifference largest_rank_difference(const std::vector<autograd::Variable>& parameters,
                                       Communicator& comm) {
  RankDifference result;
  for (const autograd::Variable& parameter : parameters) {
    const Tensor mine = parameter.data().to(kCpu);
    const std::vector<std::byte> all = comm.all_gather(bytes_of(mine));
    const double largest = dispatch_float(
        mine.dtype(), [&]<class T>() { return largest_spread<T>(all, comm.size()); });
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
