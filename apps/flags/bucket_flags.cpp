#include "apps/flags/bucket_flags.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "apps/flags/flag_table.h"
#include "apps/flags/options.h"
#include "core/error.h"

namespace brigade::apps {

namespace {

std::size_t bytes_of(double mib) {
  constexpr double kMostMib = 1U << 20U;
  return static_cast<std::size_t>(std::min(mib, kMostMib) * 0x1p20);
}

std::optional<std::size_t> bytes_of(const std::optional<double>& mib) {
  return mib ? std::optional(bytes_of(*mib)) : std::nullopt;
}

/// Whether one of the modes that will run is none of `without`.
bool some_mode_but(const Options& options, const std::vector<std::string>& without) {
  const std::vector<std::string> modes =
      options.modes.empty() ? std::vector{options.mode} : options.modes;
  return std::any_of(modes.begin(), modes.end(), [&without](const std::string& mode) {
    return std::find(without.begin(), without.end(), mode) == without.end();
  });
}

}  // namespace

BucketGrouping parse_bucket_by(const std::string& flag, const std::string& text) {
  constexpr std::int64_t kMostGroups = 1'000'000;
  if (text == "size" || text == "layer") {
    return {.by = text == "size" ? dist::BucketBy::size : dist::BucketBy::layer};
  }
  if (text == "halves") {
    return {.by = dist::BucketBy::groups, .groups = 2};
  }
  if (text.find_first_not_of("0123456789") == std::string::npos) {
    const auto groups = parse_number<std::int64_t>(flag, text, 1, kMostGroups);
    return {.by = dist::BucketBy::groups, .groups = static_cast<std::size_t>(groups)};
  }
  throw UsageError(concat(flag, ": expected size, layer, halves or a number of groups, got \"",
                          text, "\"", suggestion(text, {"size", "layer", "halves"})));
}

void declare_bucket_flags(FlagTable& flags, Options& o) {
  const auto mib = [](const std::string& flag, const std::string& text) {
    return parse_number(flag, text, 0.0, std::numeric_limits<double>::max());
  };
  const auto grouping = [](const std::string& flag, const std::string& text) {
    parse_bucket_by(flag, text);
    return text;
  };
  flags.number("--bucket-mb", o.bucket_mb, 0.0, std::numeric_limits<double>::max(),
               "bucket capacity in MiB (25)");
  flags.value("--bucket-by", "WHAT", o.bucket_by, grouping,
              "size | layer | halves | N equal groups (size)");
  flags.value("--first-bucket-mb", "X", o.first_bucket_mb, mib, "the first one's capacity");
  flags.value("--last-bucket-mb", "X", o.last_bucket_mb, mib, "the last one's: nothing hides it");
  flags.toggle("--split-tensors", "send larger buckets in pieces of --bucket-mb",
               [&o] { o.split_tensors = true; });
  flags.value("--piece-mb", "X", o.piece_mb, mib, "... or of X MiB (--cross-step: 1)");
  flags.toggle("--no-rebuild", "keep the buckets when gradients arrive in another order",
               [&o] { o.rebuild_buckets = false; });
}

void check_bucket_flags(const Options& o) {
  const bool has_end_caps = o.first_bucket_mb || o.last_bucket_mb;
  const char* const cap_flag = o.first_bucket_mb ? "--first-bucket-mb" : "--last-bucket-mb";
  if (has_end_caps && o.bucket_by != "size") {
    throw UsageError(concat(cap_flag, ": expected --bucket-by size, got ", o.bucket_by,
                            ": only buckets that are filled up to a cap have one"));
  }
  if ((has_end_caps || o.bucket_by != "size") && !some_mode_but(o, {"naive", "per_param"})) {
    throw UsageError(concat(o.bucket_by != "size" ? "--bucket-by" : cap_flag,
                            ": expected a mode with buckets, flat, overlap or no_sync, got ",
                            o.mode, ", which sends every parameter by itself"));
  }
  if (o.split_tensors && o.piece_mb.value_or(o.bucket_mb) == 0.0) {
    throw UsageError(concat(o.piece_mb ? "--piece-mb: expected more than 0"
                                       : "--split-tensors: expected --bucket-mb greater than 0",
                            ", got 0: it is the size of a piece"));
  }
  if (o.split_tensors && !some_mode_but(o, {"naive"})) {
    throw UsageError(
        "--split-tensors: expected another mode than naive, which sends every parameter whole");
  }
}

void set_buckets(const Options& o, dist::DataParallelOptions& result) {
  const BucketGrouping grouping = parse_bucket_by("--bucket-by", o.bucket_by);
  result.bucket_bytes = bytes_of(o.bucket_mb);
  result.bucket_by = grouping.by;
  result.bucket_groups = grouping.groups;
  result.first_bucket_bytes = bytes_of(o.first_bucket_mb);
  result.last_bucket_bytes = bytes_of(o.last_bucket_mb);
  result.split_tensors = o.split_tensors;
  result.piece_bytes = bytes_of(o.piece_mb);
  result.rebuild_buckets = o.rebuild_buckets;
}

}  // namespace brigade::apps
