#pragma once

#include <cstddef>
#include <string>

#include "dist/ddp/grad_averager.h"

/// The flags that say what makes a bucket.
namespace brigade::apps {

class FlagTable;
struct Options;

/// What --bucket-by chooses.
struct BucketGrouping {
  dist::BucketBy by = dist::BucketBy::size;
  std::size_t groups = 2;
};

/// "size", "layer", "halves" or a number of groups; UsageError for anything else.
BucketGrouping parse_bucket_by(const std::string& flag, const std::string& text);

/// In the current group.
void declare_bucket_flags(FlagTable& flags, Options& options);

/// UsageError for flags that exclude each other or a mode that has no buckets.
void check_bucket_flags(const Options& options);

/// Everything about buckets, from the flags.
void set_buckets(const Options& options, dist::DataParallelOptions& result);

}  // namespace brigade::apps
