#include "dist/hooks/finite_check.h"

#include <gmock/gmock.h>

#include <limits>

#include "autograd/functions/loss.h"
#include "autograd/variable.h"
#include "dist/comm/single_process.h"
#include "dist/ddp/grad_averager.h"
#include "dist/hooks/half_hook.h"
#include "dist/hooks/power_sgd.h"
#include "dist/hooks/top_k.h"
#include "tests/support/slopes.h"
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
  FiniteCheck check_{comm_, model_->parameters()};
  GradAverager parallel_{model_->parameters(), comm_, {.mode = GetParam()}};
};

TEST_P(FiniteCheckTest, NamesTheGradientBeforeItTravels) {
  check_.begin_step(3);
  EXPECT_NO_THROW(backward(1.0F));
  const std::size_t before = comm_.traffic().collectives;
  check_.begin_step(4);
  // x enters dW of the first layer alone; NaN in it reaches the last layer's gradients first.
  const char* const first = GetParam() == SyncMode::naive       ? "parameter '0.weight'"
                            : GetParam() == SyncMode::per_param ? "parameter '2.weight'"
                                                                : "parameter '2.bias'";
  EXPECT_THAT([&] { backward(std::numeric_limits<float>::quiet_NaN()); },
              ThrowsMessage<Error>(testing::AllOf(
                  HasSubstr("finite check: expected finite gradients, got NaN or inf in step 4, "
                            "bucket '"),
                  HasSubstr(first), HasSubstr("lower --lr"))));
  EXPECT_EQ(comm_.traffic().collectives, before) << "nothing was sent";
}

INSTANTIATE_TEST_SUITE_P(Modes, FiniteCheckTest, testing::ValuesIn(test::kAllModes),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST(FiniteCheck, LooksAtGradientsWithEveryHookAndAtNothingElse) {
  const std::shared_ptr<CommHook> hooks[]{std::make_shared<HalfHook>(DType::f16),
                                          std::make_shared<PowerSgd>(1),
                                          std::make_shared<TopK>(0.5)};
  for (const std::shared_ptr<CommHook>& hook : hooks) {
    SingleProcessCommunicator comm(kCpu);
    const auto model = test::make_mlp({4, 3});
    const FiniteCheck check(comm, model->parameters());
    const GradAverager parallel(model->parameters(), comm, {.hook = hook});
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    const Tensor other = Tensor::zeros({1});
    other.data<float>()[0] = kNan;
    EXPECT_NO_THROW(comm.wait(comm.all_reduce(other)));
    EXPECT_NO_THROW(
        comm.wait(comm.enqueue(Tensor::zeros({3}, DType::u8), "", [](Collectives&) {})));
    model->parameters()[1].data().data<float>()[0] = kNan;
    EXPECT_THAT([&] { test::backward_once(*model, 4, 3); },
                ThrowsMessage<Error>(HasSubstr("parameter '0.bias'")))
        << hook->name();
  }
}

}  // namespace
}  // namespace brigade::dist
