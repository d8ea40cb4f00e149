// Exercise 4: buckets by bytes. Replace the body of assign().
//
// Halves by number are unequal: a parameter has between 4 and 16384 elements. DDP fills buckets up
// to a number of bytes, starting from the last parameter, because backward reaches it first.
#include <numeric>
#include <span>

#include "apps/labs/common.h"
#include "dist/ddp/bucket.h"

namespace brigade::labs {
namespace {

/// The parameters of each bucket, by index. The last parameter is the first member of bucket 0.
/// A bucket is closed before the parameter that would take it past `cap` bytes. A parameter of more
/// than `cap` bytes has a bucket of its own.
dist::BucketPlan assign(std::span<const std::size_t> bytes, [[maybe_unused]] std::size_t cap) {
  // TODO: this is lab 4, two halves by number.
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  const auto half = order.begin() + static_cast<std::ptrdiff_t>(order.size() / 2);
  return {{order.begin(), half}, {half, order.end()}};
}

std::string to_string(const dist::BucketPlan& plan) {
  std::string text;
  for (const std::vector<std::size_t>& bucket : plan) {
    text += fmt::format("[{}]", fmt::join(bucket, " "));
  }
  return text;
}

}  // namespace

void run(dist::Communicator& comm, Recorder& /*trace*/) {
  std::vector<std::size_t> bytes;
  for (const Variable& parameter : make_model()->parameters()) {
    bytes.push_back(parameter.data().nbytes());
  }
  say(comm, "bytes of the parameters: {}", fmt::join(bytes, " "));
  for (const std::size_t cap : {0, 600, 2064, 4096, 8192, 65536, 1 << 20}) {
    const std::string expected = to_string(dist::assign_buckets(bytes, cap));
    const std::string got = to_string(assign(bytes, cap));
    expect(got == expected,
           fmt::format("cap of {} bytes: expected {}, got {}", cap, expected, got));
    say(comm, "cap of {:>7} bytes: {}", cap, got);
  }
  say(comm, "the same buckets as dist::assign_buckets");
}

}  // namespace brigade::labs
