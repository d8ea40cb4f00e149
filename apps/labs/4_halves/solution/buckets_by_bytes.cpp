// Solution 4: buckets by bytes.
//
// Halves by number are a poor cut: a parameter has 4 elements or 16384. DDP fills buckets up to a
// number of bytes, from the last parameter on, because backward reaches the last layer first.
#include <fmt/format.h>

#include <span>

#include "apps/labs/common.h"
#include "dist/ddp/bucket.h"

namespace brigade::labs {
namespace {

/// Which parameters share a bucket. The last parameter is the first member of bucket 0. A bucket is
/// closed before the parameter that would take it past `cap` bytes; a larger one is alone in its
/// bucket.
dist::BucketPlan assign(std::span<const std::size_t> bytes, std::size_t cap) {
  dist::BucketPlan plan;
  std::size_t filled = 0;  // bytes in the last bucket of the plan
  for (std::size_t i = bytes.size(); i-- > 0;) {
    if (plan.empty() || filled + bytes[i] > cap) {
      plan.emplace_back();
      filled = 0;
    }
    plan.back().push_back(i);
    filled += bytes[i];
  }
  return plan;
}

std::string to_string(const dist::BucketPlan& plan) {
  std::string text;
  for (const std::vector<std::size_t>& bucket : plan) {
    text += fmt::format("[{}]", fmt::join(bucket, " "));
  }
  return text;
}

void compare(dist::Communicator& comm) {
  std::vector<std::size_t> bytes;
  for (const Variable& parameter : make_model()->parameters()) {
    bytes.push_back(parameter.data().nbytes());
  }
  say(comm, "bytes of the parameters: {}", fmt::join(bytes, " "));
  for (const std::size_t cap : {0, 600, 4096, 8192, 65536, 1 << 20}) {
    const std::string expected = to_string(dist::assign_buckets(bytes, cap));
    const std::string got = to_string(assign(bytes, cap));
    expect(got == expected,
           fmt::format("cap of {} bytes: expected {}, got {}", cap, expected, got));
    say(comm, "cap of {:>7} bytes: {}", cap, got);
  }
  say(comm, "the same buckets as dist::assign_buckets");
}

}  // namespace
}  // namespace brigade::labs

int main(int argc, char** argv) {
  return brigade::labs::run_exercise("solution 4", argc, argv, brigade::labs::compare);
}
