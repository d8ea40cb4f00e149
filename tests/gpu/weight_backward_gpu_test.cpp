// dW and db of a linear layer in one kernel, where cuBLASLt has it: the same numbers as the CPU.
#include <algorithm>
#include <string>
#include <utility>

#include "autograd/engine.h"
#include "autograd/functions/linear.h"
#include "autograd/functions/mse_loss.h"
#include "core/runtime/context.h"
#include "tests/gpu/gpu_test.h"

namespace brigade {
namespace {

struct Layer {
  std::int64_t batch, in, out;
};
/// Nothing, one element, odd sizes, long and short sums, and multiples of every tile.
constexpr Layer kLayers[] = {{0, 3, 2},     {1, 1, 1},      {3, 7, 5},       {64, 513, 10},
                             {1, 17, 1000}, {257, 65, 129}, {4096, 16, 8},   {64, 128, 256},
                             {256, 512, 1}, {256, 1, 512},  {128, 1024, 640}};

std::int64_t times_told(const std::string& start) {
  const std::vector<std::string>& lines = Context::current().choices();
  return std::count_if(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.starts_with(start); });
}

template <class T>
class WeightBackwardOnGpu : public KernelTest<T> {
 protected:
  // Sums of up to 4096 products in another order than the CPU's.
  static constexpr double kTolerance = 50 * KernelTest<T>::kTolerance;

  void expect_the_cpus(const Layer& layer, Scale dw_scale, Scale db_scale) {
    const auto [batch, in, out] = layer;
    SCOPED_TRACE(testing::Message()
                 << batch << "x" << in << "x" << out << ", dw " << dw_scale.alpha << " and "
                 << dw_scale.beta << ", db " << db_scale.alpha << " and " << db_scale.beta);
    const auto destination = [](Scale scale, const Shape& shape, std::uint32_t sequence) {
      return scale.beta == 0.0 ? KernelTest<T>::garbage(shape)
                               : KernelTest<T>::numbers(shape, sequence);
    };
    this->expect_same(
        {this->numbers({batch, out}, 1), this->numbers({batch, in}, 2),
         destination(dw_scale, {out, in}, 3), destination(db_scale, {out}, 4)},
        [=](Tensors& t) {
          ops::linear_weight_backward(t[0], t[1], dw_scale, t[2], db_scale, t[3]);
        },
        kTolerance);
  }
};
TYPED_TEST_SUITE(WeightBackwardOnGpu, FloatTypes);

TYPED_TEST(WeightBackwardOnGpu, EqualsTheCpuForEveryScale) {
  for (const Layer& layer : kLayers) {
    for (const double alpha : {1.0, 0.5, 0.0}) {
      for (const double dw_beta : {0.0, 1.0}) {
        for (const double db_beta : {0.0, 1.0}) {
          this->expect_the_cpus(layer, {.alpha = alpha, .beta = dw_beta},
                                {.alpha = alpha, .beta = db_beta});
        }
      }
    }
  }
}

TYPED_TEST(WeightBackwardOnGpu, OfTwoFactorsGivesEachItsOwn) {
  for (const Layer& layer : kLayers) {
    this->expect_the_cpus(layer, {.alpha = 0.5, .beta = 0.0}, {.alpha = 1.0, .beta = 0.0});
    this->expect_the_cpus(layer, {.alpha = 1.0, .beta = 1.0}, {.alpha = 0.25, .beta = 0.0});
  }
}

TYPED_TEST(WeightBackwardOnGpu, LetsANaNReachItsOwnOutputAlone) {
  const Tensor dz = this->numbers({64, 48}, 1);
  dz.template data<TypeParam>()[5 * 48 + 7] = static_cast<TypeParam>(std::nan(""));
  this->expect_same(
      {dz, this->numbers({64, 32}, 2), this->garbage({48, 32}), this->garbage({48})},
      [](Tensors& t) { ops::linear_weight_backward(t[0], t[1], {}, t[2], {}, t[3]); },
      this->kTolerance);
}

TYPED_TEST(WeightBackwardOnGpu, TakesSlicesThatBeginAnywhere) {
  constexpr std::int64_t kBatch = 8;
  constexpr std::int64_t kIn = 16;
  constexpr std::int64_t kOut = 24;
  const auto slice = [](const Tensor& memory, const Shape& shape) {
    return memory.flat_view(1, shape);
  };
  this->expect_same(
      {this->numbers({kBatch * kOut + 1}, 1), this->numbers({kBatch * kIn + 1}, 2),
       this->numbers({kOut * kIn + 1}, 3), this->numbers({kOut + 1}, 4)},
      [&](Tensors& t) {
        Tensor dw = slice(t[2], {kOut, kIn});
        Tensor db = slice(t[3], {kOut});
        ops::linear_weight_backward(slice(t[0], {kBatch, kOut}), slice(t[1], {kBatch, kIn}), {}, dw,
                                    {}, db);
      },
      this->kTolerance);
}

TYPED_TEST(WeightBackwardOnGpu, TakesAnXThatBeginsAnywhere) {
  const Tensor dz = this->numbers({8, 24}, 1);
  const Tensor memory = this->numbers({8 * 16 + 1}, 2);
  for (const std::int64_t first : {0, 1}) {  // the second time there is a kernel for aligned ones
    this->expect_same(
        {dz, memory, this->garbage({24, 16}), this->garbage({24})},
        [first](Tensors& t) {
          ops::linear_weight_backward(t[0], t[1].flat_view(first, {8, 16}), {}, t[2], {}, t[3]);
        },
        this->kTolerance);
  }
}

using WeightBackwardChoice = GpuTest;

TEST_F(WeightBackwardChoice, IsTriedAndToldOncePerShapeWhateverItsScales) {
  const Tensor dz = Tensor::zeros({24, 56}, DType::f32, kGpu);
  const Tensor x = Tensor::zeros({24, 40}, DType::f32, kGpu);
  Tensor dw = Tensor::zeros({56, 40}, DType::f32, kGpu);
  Tensor db = Tensor::zeros({56}, DType::f32, kGpu);
  for (const Scale scale : {Scale{.alpha = 0.5, .beta = 1.0}, Scale{}, Scale{.alpha = 0.25}}) {
    ops::linear_weight_backward(dz, x, scale, dw, scale, db);
    EXPECT_EQ(times_told("weight gradient f32 24x40x56: "), 1);
  }
}

TEST_F(WeightBackwardChoice, IsNotAnEpilogueThatAddsUpWrong) {
  const Tensor dz = Tensor::zeros({64, 128}, DType::f32, kGpu);
  const Tensor x = Tensor::zeros({64, 128}, DType::f32, kGpu);
  Tensor dw = Tensor::empty({128, 128}, DType::f32, kGpu);
  Tensor db = Tensor::empty({128}, DType::f32, kGpu);
  ops::linear_weight_backward(dz, x, {}, dw, {}, db);
  EXPECT_EQ(times_told("weight gradient f32 64x128x128: cuBLAS and a column sum, because "
                       "cuBLASLt's kernel failed a trial: it adds up wrong"),
            0)
      << "it exists and adds up wrong: more likely our operands are";
}

TEST_F(WeightBackwardChoice, DoesNotRoundWhatIsOnlySummedToTf32) {
  // 1 + 2^-12 is a float but no TF32 number.
  const Tensor dz = Tensor::from(std::vector<float>(64 * 32, 1.0F + 0x1p-12F), {64, 32}, kGpu);
  const Tensor x = Tensor::zeros({64, 128}, DType::f32, kGpu);
  Tensor dw = Tensor::empty({32, 128}, DType::f32, kGpu);
  Tensor db = Tensor::empty({32}, DType::f32, kGpu);
  Context::current().set_tf32(true);
  ops::linear_weight_backward(dz, x, {}, dw, {}, db);
  Context::current().set_tf32(false);
  EXPECT_EQ(db.to_vector<float>(), std::vector<float>(32, 64.0F + 0x1p-6F));
}

using LinearBackwardOnGpu = KernelTest<float>;

/// Logs whose gradient is ready.
class Log final : public autograd::GradListener {
 public:
  void on_grad_ready(std::size_t index) override { ready.push_back(index); }
  std::vector<std::size_t> ready;
};

TEST_F(LinearBackwardOnGpu, EqualsTheCpuForWhateverWantsAGradient) {
  for (const bool relu : {false, true}) {
    for (const auto& [weight_wanted, bias_wanted] :
         {std::pair(true, true), std::pair(true, false), std::pair(false, true)}) {
      SCOPED_TRACE(testing::Message()
                   << "relu " << relu << ", W " << weight_wanted << ", b " << bias_wanted);
      expect_same(
          {numbers({33, 20}, 1), numbers({12, 20}, 2), numbers({12}, 3), numbers({33, 12}, 4),
           garbage({33, 20}), garbage({12, 20}), garbage({12})},
          [&](Tensors& t) {
            const autograd::Variable x(t[0], true);
            const autograd::Variable w(t[1], weight_wanted);
            const autograd::Variable b(t[2], bias_wanted);
            const auto loss = [&] {
              return mse_loss(relu ? linear_relu(x, w, b) : linear(x, w, b), t[3]);
            };
            autograd::backward(loss());
            autograd::backward(loss());  // added to the first
            t[4] = x.grad();
            t[5] = weight_wanted ? w.grad() : Tensor::zeros({}, DType::f32, kCpu);
            t[6] = bias_wanted ? b.grad() : Tensor::zeros({}, DType::f32, kCpu);
          },
          10 * kTolerance);
    }
  }
}

TEST_F(LinearBackwardOnGpu, MakesWhatTheNetworkWaitsForBeforeWhatOnlyThisRankWaitsFor) {
  Log log;
  const autograd::Variable x(Tensor::zeros({2, 3}, DType::f32, kGpu), true);
  const autograd::Variable w(Tensor::zeros({1, 3}, DType::f32, kGpu), true);
  const autograd::Variable b(Tensor::zeros({1}, DType::f32, kGpu), true);
  const autograd::HookHandle hx = x.attach_listener(log, 0);
  const autograd::HookHandle hw = w.attach_listener(log, 1);
  const autograd::HookHandle hb = b.attach_listener(log, 2);
  const Tensor target = Tensor::zeros({2, 1}, DType::f32, kGpu);
  autograd::backward(mse_loss(linear(x, w, b), target));
  EXPECT_EQ(log.ready, (std::vector<std::size_t>{1, 2, 0}));
  log.ready.clear();
  autograd::backward(mse_loss(linear_relu(x, w, b), target));
  EXPECT_EQ(log.ready, (std::vector<std::size_t>{1, 2, 0}));
}

}  // namespace
}  // namespace brigade
