#include "dist/hooks/reduce_check.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/share.h"

namespace brigade::dist {
namespace {

/// What rounding to a type may change: a number by the factor 1 + unit, or by `least` near zero.
struct Precision {
  double unit;
  double least;
  double largest;
};

Precision precision_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {.unit = 0x1p-53, .least = DBL_MIN, .largest = DBL_MAX};
    case DType::f16:
      return {.unit = 0x1p-11, .least = 0x1p-24, .largest = 65504.0};
    case DType::bf16:
      return {.unit = 0x1p-8, .least = FLT_MIN, .largest = FLT_MAX};
    default:
      return {.unit = 0x1p-24, .least = FLT_MIN, .largest = FLT_MAX};
  }
}

struct BlockSum {
  double sum = 0.0;
  double magnitude = 0.0;  ///< of the absolute values
};

BlockSum sum_of(const Tensor& tensor) {
  constexpr std::size_t kLanes = 8;  // independent sums, so that the compiler vectorises
  std::array<double, kLanes> sums{};
  std::array<double, kLanes> magnitudes{};
  dispatch_float(tensor.dtype(), [&]<class T>() {
    const std::span values(tensor.data<T>(), static_cast<std::size_t>(tensor.numel()));
    const auto add = [&](std::size_t lane, double value) {
      sums[lane] += value;
      magnitudes[lane] += std::abs(value);
    };
    std::size_t i = 0;
    for (; i + kLanes <= values.size(); i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        add(lane, values[i + lane]);
      }
    }
    for (; i < values.size(); ++i) {
      add(0, values[i]);
    }
  });
  return {.sum = std::accumulate(sums.begin(), sums.end(), 0.0),
          .magnitude = std::accumulate(magnitudes.begin(), magnitudes.end(), 0.0)};
}

/// One collective under observation, from before it to the verdict. Runs on the communication
/// stream.
class Observed {
 public:
  Observed(Collectives& ranks, const Tensor& payload, std::optional<DType> wire)
      : ranks_(ranks), payload_(payload), wire_(wire) {
    // The share_of() of each rank is a row.
    const std::int64_t width = kBlocks + kPerBlock * blocks();
    stride_ = (width + kShareUnit - 1) / kShareUnit * kShareUnit;
    rows_ = Tensor::zeros({ranks_.size(), stride_}, DType::f64);
    for (std::int64_t block = 0; block < blocks(); ++block) {
      const BlockSum mine = sum_of(view(block));
      double* numbers = numbers_of(ranks_.rank(), block);
      numbers[sum] = mine.sum;
      numbers[magnitude] = mine.magnitude;
    }
  }

  /// Once the collective has ended; empty if all is well.
  std::string complaint() {
    std::uint64_t hash = 0;
    for (std::int64_t block = 0; block < blocks(); ++block) {  // each is read once from memory
      const Tensor numbers = view(block);
      hash = XXH3_64bits_withSeed(numbers.bytes(), numbers.nbytes(), hash);
      numbers_of(ranks_.rank(), block)[result] = sum_of(numbers).sum;
    }
    std::memcpy(row_of(ranks_.rank()), &hash, sizeof hash);
    ranks_.all_gather(rows_);
    std::vector<std::uint64_t> hashes(static_cast<std::size_t>(ranks_.size()));
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      std::memcpy(&hashes[static_cast<std::size_t>(rank)], row_of(rank), sizeof hash);
    }
    if (std::ranges::count(hashes, hashes.front()) < std::ssize(hashes)) {
      return different(hashes);
    }
    const double error = error_of(ranks_.rank());
    return error == 0.0 ? ""
                        : fmt::format(
                              "the sum over the ranks is off by {:g}, alike on all ranks; whose "
                              "gradient it was cannot be told",
                              error);
  }

 private:
  // A row: the hash, then these of each block.
  static constexpr std::int64_t kBlocks = 1;
  static constexpr std::int64_t kPerBlock = 3;
  enum Number : std::uint8_t { sum, magnitude, result };

  std::int64_t blocks() const {
    return (payload_.numel() + ReduceCheck::kBlock - 1) / ReduceCheck::kBlock;
  }
  Tensor view(std::int64_t block) const {
    const std::int64_t begin = block * ReduceCheck::kBlock;
    return payload_.flat_view(begin, {std::min(ReduceCheck::kBlock, payload_.numel() - begin)});
  }
  double* row_of(int rank) const { return rows_.data<double>() + rank * stride_; }
  double* numbers_of(int rank, std::int64_t block) const {
    return row_of(rank) + kBlocks + kPerBlock * block;
  }

  /// The contributions of all ranks.
  BlockSum expected(std::int64_t block) const {
    BlockSum all;
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      all.sum += numbers_of(rank, block)[sum];
      all.magnitude += numbers_of(rank, block)[magnitude];
    }
    return all;
  }

  /// Of the first block of the rank's result that is not the sum of the contributions; 0: none.
  double error_of(int rank) const {
    if (!wire_) {
      return 0.0;
    }
    constexpr double kMargin = 1.01;  // for products of roundings
    constexpr double kBlock = ReduceCheck::kBlock;
    const int ranks = ranks_.size();
    const Precision own = precision_of(payload_.dtype());
    const Precision wire = precision_of(*wire_);
    const double narrowed = wire.unit > own.unit ? 2.0 * wire.unit : 0.0;
    const double relative =
        kMargin * ((ranks - 1) * own.unit + narrowed + 2.0 * (kBlock + ranks) * 0x1p-53);
    const double absolute = kBlock * (ranks + 1) * std::max(own.least, wire.least);
    const double largest = 0.5 * std::min(own.largest, wire.largest);
    for (std::int64_t block = 0; block < blocks(); ++block) {
      const BlockSum all = expected(block);
      const double error = numbers_of(rank, block)[result] - all.sum;
      const bool can_tell = all.magnitude < largest;
      if (can_tell && !(std::abs(error) <= relative * all.magnitude + absolute)) {
        return error;
      }
    }
    return 0.0;
  }

  /// Names who has another sum than most ranks, or without a majority, whose is not the sum.
  std::string different(const std::vector<std::uint64_t>& hashes) const {
    for (std::int64_t block = 0; block < blocks(); ++block) {
      if (!std::isfinite(expected(block).magnitude)) {
        return "";  // NaN has many encodings, and which of two a sum gets depends on their order
      }
    }
    const auto votes = [&](std::uint64_t hash) { return std::ranges::count(hashes, hash); };
    const std::uint64_t most = *std::ranges::max_element(hashes, {}, votes);
    const bool majority = 2 * votes(most) > std::ssize(hashes);
    std::string names;
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      const double error = error_of(rank);
      if (majority ? hashes[static_cast<std::size_t>(rank)] != most : error != 0.0) {
        names += fmt::format("{}rank {}", names.empty() ? "" : ", ", rank);
        names += error != 0.0 ? fmt::format(" (off by {:g})", error) : "";
      }
    }
    const char* const why =
        wire_ ? "they differ by no more than rounding" : "the hook's result is not the sum";
    return fmt::format("the ranks have different sums; {}",
                       names.empty() ? fmt::format("whose is wrong cannot be told, as {}", why)
                                     : "wrong is that of " + names);
  }

  Collectives& ranks_;
  Tensor payload_;
  std::optional<DType> wire_;
  std::int64_t stride_ = 0;
  Tensor rows_;  ///< [ranks, stride]
};

}  // namespace

ReduceCheck::ReduceCheck(Communicator& comm, std::optional<DType> wire) : comm_(comm) {
  comm_.add_wrap([this, wire](const Tensor& payload, std::string_view label,
                              Communicator::Collective collective) -> Communicator::Collective {
    if (comm_.size() == 1) {
      return collective;
    }
    BRIGADE_CHECK(!payload.device().is_cuda(),
                  "check-reduce: expected gradients on the CPU, got {}; leave the check out",
                  payload.device());
    return [payload, wire, place = place_of(label),
            collective = std::move(collective)](Collectives& ranks) {
      Observed observed(ranks, payload, wire);
      collective(ranks);
      if (const std::string complaint = observed.complaint(); !complaint.empty()) {
        throw VerificationError(fmt::format(
            "check-reduce: {}: {}; a bit has flipped in memory or on the network: look at the ECC "
            "and link error counts of the hosts, and continue from a checkpoint",
            place, complaint));
      }
    };
  });
}

/// "bucket_3 (4.weight, 4.bias) of step 7"; a chunk's label is "bucket_3[2/8]".
std::string ReduceCheck::place_of(std::string_view label) const {
  const auto found = contents_.find(std::string(label.substr(0, label.find('['))));
  const bool adds = found != contents_.end() && found->second != found->first;
  return fmt::format("{}{} of step {}", label, adds ? " (" + found->second + ")" : "", step_);
}

}  // namespace brigade::dist
