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

void declare_bucket_flags(FlagTable& flags, Options& o) {
  const auto mib = [](const std::string& flag, const std::string& text) {
    return parse_number(flag, text, 0.0, std::numeric_limits<double>::max());
  };
  flags.number("--bucket-mb", o.bucket_mb, 0.0, std::numeric_limits<double>::max(),
               "bucket capacity in MiB (25)");
  flags.choice("--bucket-by", o.bucket_by, {"size", "layer"}, "size | layer (size)");
  flags.value("--first-bucket-mb", "X", o.first_bucket_mb, mib, "the first one's capacity");
  flags.value("--last-bucket-mb", "X", o.last_bucket_mb, mib, "the last one's: nothing hides it");
  flags.toggle("--split-tensors", "send larger buckets in pieces of --bucket-mb (--cross-step: 1)",
               [&o] { o.split_tensors = true; });
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
  if (o.split_tensors && o.piece_mb == 0.0 && o.bucket_mb == 0.0) {
    throw UsageError(
        "--split-tensors: expected --bucket-mb greater than 0, got 0: it is the size of a piece");
  }
  if (o.split_tensors && !some_mode_but(o, {"naive"})) {
    throw UsageError(
        "--split-tensors: expected another mode than naive, which sends every parameter whole");
  }
}

void set_buckets(const Options& o, dist::DataParallelOptions& result) {
  result.bucket_bytes = bytes_of(o.bucket_mb);
  result.bucket_by = o.bucket_by == "layer" ? dist::BucketBy::layer : dist::BucketBy::size;
  result.first_bucket_bytes = bytes_of(o.first_bucket_mb);
  result.last_bucket_bytes = bytes_of(o.last_bucket_mb);
  result.split_tensors = o.split_tensors;
  if (o.piece_mb > 0.0) {
    result.piece_bytes = bytes_of(o.piece_mb);
  }
  result.rebuild_buckets = o.rebuild_buckets;
}

}  // namespace brigade::apps
