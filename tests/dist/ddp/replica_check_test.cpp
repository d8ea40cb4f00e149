#include "dist/ddp/replica_check.h"

#include <gmock/gmock.h>

#include <cstdint>

#include "core/error.h"
#include "core/ops.h"
#include "dist/ddp/grad_averager.h"
#include "tests/support/slopes.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using test::numbers;
using test::thread_world;
using testing::HasSubstr;
using testing::ThrowsMessage;

void set(const autograd::Variable& parameter, double value) {
  Tensor values = parameter.data();
  ops::fill(value, values);
}

TEST(VerifyParametersEqual, NamesWhateverTrainingHasDrivenApart) {
  for (const std::size_t drifted : {0U, 1U, 2U}) {
    thread_world(3, [drifted](Communicator& comm) {
      const auto p = numbers(3);
      const GradAverager parallel(p, comm, {});
      parallel.verify_parameters_equal();
      if (comm.rank() == 1) {
        set(p[drifted], 1.5);
      }
      EXPECT_THAT([&] { parallel.verify_parameters_equal(); },
                  ThrowsMessage<VerificationError>(
                      HasSubstr(fmt::format("parameter '{}' of rank 1 differs from rank 0's: "
                                            "largest difference 0.5; they began alike",
                                            p[drifted].name()))));
    });
  }
}

TEST(VerifyParametersEqual, LooksAtFrozenOnesToo) {
  thread_world(2, [](Communicator& comm) {
    const auto p = numbers(2);
    p[0].set_requires_grad(false);
    const GradAverager parallel(p, comm, {});
    if (comm.rank() == 1) {
      set(p[0], 2.0);
    }
    EXPECT_THAT([&] { parallel.verify_parameters_equal(); },
                ThrowsMessage<VerificationError>(HasSubstr("parameter 'a' of rank 1 differs")));
  });
}

TEST(HashParameters, DependsOnEachParameterAndOnTheirOrder) {
  const auto p = numbers(3);
  const std::uint64_t hash = hash_parameters(p);
  EXPECT_EQ(hash_parameters(numbers(3)), hash);
  for (const autograd::Variable& parameter : p) {
    set(parameter, 2.0);
    EXPECT_NE(hash_parameters(p), hash) << parameter.name();
    set(parameter, 1.0);
  }
  set(p[0], 2.0);
  const std::uint64_t first = hash_parameters(p);
  set(p[0], 1.0);
  set(p[1], 2.0);
  EXPECT_NE(hash_parameters(p), first) << "the same values elsewhere";
}

}  // namespace
}  // namespace brigade::dist
