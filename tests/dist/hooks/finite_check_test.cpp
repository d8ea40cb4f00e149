#include "dist/hooks/finite_check.h"

#include <gmock/gmock.h>

#include <limits>

#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "dist/comm/single_process.h"
#include "dist/ddp/grad_averager.h"
#include "dist/hooks/half_hook.h"
#include "tests/support/small_model.h"

namespace brigade::dist {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// A model behind DataParallel whose gradients are looked at.
class FiniteCheckTest : public testing::TestWithParam<SyncMode> {
 protected:
  void backward(float x) {
    Tensor inputs = Tensor::zeros({2, 4});
    inputs.data<float>()[0] = x;
    autograd::mse_loss(model_->forward(autograd::Variable(inputs)), Tensor::zeros({2, 3}))
        .backward();
  }

  std::unique_ptr<nn::Sequential> model_ = test::make_mlp({4, 5, 3});
  SingleProcessCommunicator comm_{kCpu};
  std::shared_ptr<FiniteCheck> check_ =
      std::make_shared<FiniteCheck>(std::make_shared<PlainAllReduce>());
  GradAverager parallel_{model_->parameters(), comm_, {.mode = GetParam(), .hook = check_}};
};

TEST_P(FiniteCheckTest, NamesTheGradientBeforeItTravels) {
  if (GetParam() == SyncMode::naive) {
    check_->watch_naive(parallel_.parameters());
  }
  check_->begin_step(3);
  EXPECT_NO_THROW(backward(1.0F));
  const std::size_t before = comm_.traffic().collectives;
  check_->begin_step(4);
  // x enters dW of the first layer alone; NaN in it reaches the last layer's gradients first.
  EXPECT_THAT([&] { backward(std::numeric_limits<float>::quiet_NaN()); },
              ThrowsMessage<Error>(testing::AllOf(
                  HasSubstr("finite check: expected finite gradients, got NaN or inf in step 4, "
                            "bucket '"),
                  HasSubstr("parameter '2."), HasSubstr("lower --lr"))));
  EXPECT_EQ(comm_.traffic().collectives, before) << "nothing was sent";
}

INSTANTIATE_TEST_SUITE_P(Modes, FiniteCheckTest,
                         testing::Values(SyncMode::naive, SyncMode::flat, SyncMode::per_param,
                                         SyncMode::overlap),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST(FiniteCheck, HasTheNameOfTheHookThatDoesTheWork) {
  const auto half = std::make_shared<HalfHook>(DType::bf16);
  EXPECT_EQ(FiniteCheck(half).name(), "bf16");
  const FiniteCheck first(half);
  EXPECT_THAT([&] { const FiniteCheck second{half}; },
              ThrowsMessage<Error>(HasSubstr("remembers another DataParallel's buckets")));
}

}  // namespace
}  // namespace brigade::dist
