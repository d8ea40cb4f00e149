#include "apps/setup.h"

#include <gmock/gmock.h>

namespace brigade::apps {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

TEST(Setup, SaysThatMatrixProductsAreTf32s) {
  Options options;
  EXPECT_THAT(libraries_of(options, kCpu), Not(HasSubstr("TF32")));
  options.tf32 = true;
  EXPECT_THAT(libraries_of(options, kCpu), EndsWith(", TF32"));
}

TEST(Setup, SaysThatNcclFlagsDoNothingWithoutNccl) {
  const std::string staged = "MPI (Open MPI 4.1.4), staged through host memory";
  const std::string warning =
      "[rank 0] warning: --nccl-max-ctas, --nccl-register: without effect, because gradients do "
      "not travel through NCCL; comm is " +
      staged;
  EXPECT_EQ(unused_nccl_flags({.max_ctas = 4}, staged), warning);
  EXPECT_EQ(unused_nccl_flags({.register_buckets = true}, staged), warning);
  EXPECT_THAT(unused_nccl_flags({.max_ctas = 4}, "none (one rank)"), EndsWith("none (one rank)"));
  EXPECT_EQ(unused_nccl_flags({}, staged), "") << "nothing was asked for";
  EXPECT_EQ(unused_nccl_flags({.max_ctas = 4}, "NCCL 2.28.9"), "");
}

}  // namespace
}  // namespace brigade::apps
