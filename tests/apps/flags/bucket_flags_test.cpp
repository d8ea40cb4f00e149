#include <gmock/gmock.h>

#include "apps/training/run_info.h"
#include "dist/comm/single_process.h"
#include "tests/apps/flags/parsed.h"

namespace brigade::apps {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(BucketFlags, ReachDataParallel) {
  EXPECT_EQ(parsed({}).data_parallel().bucket_bytes, 25U << 20U);
  EXPECT_EQ(parsed({"--bucket-mb", "4"}).data_parallel().bucket_bytes, 4U << 20U);
}

TEST(BucketContents, NameTheParametersOfEveryBucket) {
  dist::SingleProcessCommunicator comm(kCpu);
  const auto model = make_network({{16, 16}, true}, 0, kCpu);
  const dist::GradAverager parallel(model->parameters(), comm, {});
  const std::vector<BucketInfo> described = describe_buckets(parallel);
  EXPECT_THAT(bucket_contents(described), ElementsAre(Pair("bucket_0", "0.weight, 0.bias")));
  ASSERT_EQ(described.size(), 1U);
  EXPECT_EQ(described[0].bytes, 1024U + 64U);
}

}  // namespace
}  // namespace brigade::apps
