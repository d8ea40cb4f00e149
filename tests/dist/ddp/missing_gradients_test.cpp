// A parameter without a gradient, or with two, is an error that names it, in all modes.
#include <gmock/gmock.h>

#include "dist/comm/single_process.h"
#include "dist/ddp/grad_averager.h"
#include "tests/support/slopes.h"
#include "tests/support/small_model.h"
#include "tests/support/thread_world.h"

namespace brigade::dist {
namespace {

using test::thread_world;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(MissingGradients, NameAParameterUnusedInBackwardInTheSameStep) {
  thread_world(2, [](Communicator& comm) {
    const auto used = test::make_mlp({2, 2});
    const autograd::Variable unused(Tensor::zeros({3}), true, "never_used");
    std::vector<autograd::Variable> parameters = used->parameters();
    parameters.push_back(unused);
    const GradAverager parallel(parameters, comm, {});
    EXPECT_THAT([&] { test::backward_once(*used, 2, 2); },
                ThrowsMessage<Error>(HasSubstr("'never_used'")));
  });
}

/// Six parameters ("0.weight" ... "4.bias"), whose gradients a test reports itself.
class ReportedGradients : public testing::TestWithParam<SyncMode> {
 protected:
  ReportedGradients() {
    for (const autograd::Variable& parameter : parallel.parameters()) {
      parameter.grad_state()->fill_with_zeros();
    }
    parallel.on_backward_begin();
  }

  std::unique_ptr<nn::Sequential> model = test::make_mlp({2, 3, 4, 2});
  SingleProcessCommunicator comm{kCpu};
  GradAverager parallel{
      model->parameters(), comm, {.mode = GetParam(), .plan = {{5, 4}, {3, 2}, {1, 0}}}};
};

TEST_P(ReportedGradients, ThatNeverCameAreNamedAtTheEndOfBackward) {
  for (const std::size_t index : {5U, 4U, 3U, 1U, 0U}) {
    parallel.on_grad_ready(index);
  }
  const std::uint64_t before = comm.collectives();
  EXPECT_EQ(before > 0, GetParam() == SyncMode::overlap || GetParam() == SyncMode::per_param);
  EXPECT_THAT([&] { parallel.on_backward_end(); },
              ThrowsMessage<Error>(HasSubstr(
                  "1 of 6 parameters got no gradient in this backward on rank 0: '2.weight'")));
  EXPECT_EQ(comm.collectives(), before) << "nothing more is launched";
  parallel.on_backward_abort();
  if (before == 0) {
    EXPECT_NO_THROW(parallel.on_backward_begin());
  } else {
    EXPECT_THAT([&] { parallel.on_backward_begin(); },
                ThrowsMessage<Error>(HasSubstr("failed with an all-reduce in flight")));
  }
}

TEST_P(ReportedGradients, AreRefusedWhereOneComesTwice) {
  parallel.on_grad_ready(5);
  EXPECT_THAT([&] { parallel.on_grad_ready(5); },
              ThrowsMessage<Error>(
                  HasSubstr("the gradient of '4.bias' was reported twice in one backward")));
  parallel.on_backward_abort();
  parallel.on_backward_begin();
  EXPECT_NO_THROW(parallel.on_grad_ready(5));
}

INSTANTIATE_TEST_SUITE_P(Modes, ReportedGradients, testing::ValuesIn(test::kAllModes),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST(MissingGradients, OfOneRankAreNamedByAllInTheFirstBackward) {
  for (const SyncMode mode : test::kAllModes) {
    thread_world(3, [mode](Communicator& comm) {
      const auto model = test::make_mlp({2, 2, 2});
      std::vector<autograd::Variable> parameters = model->parameters();
      if (comm.rank() == 1) {  // a copy that its model does not use
        parameters[2] = autograd::Variable(parameters[2].data().clone(), true, "2.weight");
      }
      const GradAverager parallel(parameters, comm, {.mode = mode});
      for (int attempt = 0; attempt < 2; ++attempt) {  // a retry is checked, too
        EXPECT_THAT([&] { test::backward_once(*model, 2, 2); },
                    ThrowsMessage<Error>(
                        HasSubstr("data parallel: 1 of 4 parameters got no gradient in this "
                                  "backward on rank 1: '2.weight'; the loss must depend")));
      }
    });
  }
}

}  // namespace
}  // namespace brigade::dist
