#include "nn/gpt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/grad_mode.h"
#include "autograd/variable.h"
#include "core/ops.h"
#include "core/random.h"
#include "nn/gelu.h"
#include "nn/generate.h"
#include "nn/init.h"
#include "nn/loss.h"
#include "tests/support/expect_error.h"

namespace brigade::nn {
namespace {

constexpr GPTOptions kSmall{.layers = 2, .heads = 2, .width = 8, .context = 6, .vocabulary = 11};

Variable tokens(const std::vector<std::int64_t>& values, std::int64_t sequences) {
  return Variable(
      Tensor::from(values, {sequences, static_cast<std::int64_t>(values.size()) / sequences}));
}

GPT small_gpt(std::uint64_t seed = 1, GPTOptions options = kSmall) {
  manual_seed(seed);
  return GPT(options);
}

double deviation(const Variable& parameter) {
  double squares = 0.0;
  for (const float value : parameter.data().to_vector<float>()) {
    squares += static_cast<double>(value) * value;
  }
  return std::sqrt(squares / static_cast<double>(parameter.shape().numel()));
}

TEST(InitNormal, HasTheMeanTheDeviationAndTheTailsOfANormalDistribution) {
  manual_seed(3);
  const Variable parameter(Tensor::empty({100, 100}), true);
  init_normal(parameter, 2.0);
  const auto values = parameter.data().to_vector<float>();
  double sum = 0.0;
  std::int64_t within_one = 0;
  for (const float value : values) {
    sum += value;
    within_one += std::abs(value) < 2.0F ? 1 : 0;
  }
  EXPECT_NEAR(sum / 10000, 0.0, 0.06);
  EXPECT_NEAR(deviation(parameter), 2.0, 0.04);
  EXPECT_NEAR(static_cast<double>(within_one) / 10000, 0.6827, 0.015);
}

TEST(LayersOfAGpt, StartAsPyTorchsAndDescribeThemselves) {
  manual_seed(1);
  EXPECT_EQ(Embedding(5, 3).description(), "Embedding(5, 3)");
  EXPECT_NEAR(deviation(Embedding(100, 100).weight()), 1.0, 0.02);
  EXPECT_EQ(LayerNorm(4).description(), "LayerNorm(4)");
  EXPECT_EQ(GELU().description(), "GELU()");
  EXPECT_EQ(Dropout(0.25).description(), "Dropout(0.25)");
  const Variable one(Tensor::from(std::vector<float>{1}, {1}));
  EXPECT_NEAR(GELU()(one).item(), 0.841192F, 1e-6);  // torch: gelu(1, approximate="tanh")
  EXPECT_ERROR(Embedding(0, 3), "Embedding: expected a positive vocabulary and width, got 0 and 3");
  EXPECT_ERROR(LayerNorm(0), "LayerNorm: expected a positive width, got 0");
  EXPECT_ERROR(Dropout(1.0), "Dropout: expected p in [0, 1), got 1");
}

TEST(GptModel, HasTheNamesOfHuggingFaceAndOneParameterForBothUsesOfTheTokens) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : small_gpt().named_parameters()) {
    names.push_back(name);
  }
  EXPECT_EQ(names.size(), 2 + 2 * 12 + 2);
  EXPECT_EQ(names.front(), "transformer.wte.weight");
  EXPECT_EQ(names[1], "transformer.wpe.weight");
  EXPECT_EQ(names[4], "transformer.h.0.attn.c_attn.weight");
  EXPECT_EQ(names.back(), "transformer.ln_f.bias");
  EXPECT_EQ(std::ranges::count(names, "lm_head.weight"), 0);
}

TEST(GptModel, StartsAsGpt2) {
  const GPT model = small_gpt(1, {.layers = 8, .heads = 2, .width = 64, .vocabulary = 100});
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (parameter.shape().rank() == 2) {
      EXPECT_NEAR(deviation(parameter), name.ends_with("c_proj.weight") ? 0.005 : 0.02, 0.002)
          << name;
    } else {
      EXPECT_EQ(deviation(parameter), name.ends_with("bias") ? 0.0 : 1.0) << name;
    }
  }
}

TEST(GptModel, GivesALogitForEachTokenAtEachPosition) {
  GPT model = small_gpt();
  EXPECT_EQ(model(tokens({1, 2, 3, 4, 5, 6}, 2)).shape(), (Shape{2, 3, 11}));
  EXPECT_ERROR(model(tokens({1, 2, 3, 4, 5, 6, 7}, 1)),
               "GPT: expected tokens [N, T], T at most 6, got [1, 7]");
  EXPECT_ERROR(GPT({.heads = 3, .width = 8}),
               "attention: expected heads that divide the width 8, got 3");
}

TEST(GptModel, ALaterTokenChangesNoLogitBefore) {
  GPT model = small_gpt();
  const auto a = model(tokens({1, 2, 3, 4}, 1)).data().to_vector<float>();
  const auto b = model(tokens({1, 2, 3, 9}, 1)).data().to_vector<float>();
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 33, b.begin()));
  EXPECT_FALSE(std::equal(a.begin() + 33, a.end(), b.begin() + 33));
}

TEST(GptModel, TheTiedWeightIsTheLastToBeReady) {
  struct Listener : autograd::GradListener {
    std::vector<std::size_t> order;
    void on_grad_ready(std::size_t index) override { order.push_back(index); }
  } listener;
  GPT model = small_gpt();
  std::vector<autograd::ListenerHandle> handles;
  const auto parameters = model.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    handles.push_back(parameters[i].attach_listener(listener, i));
  }
  cross_entropy(model(tokens({1, 2, 3}, 1)),
                Tensor::from(std::vector<std::int64_t>{2, 3, 4}, {1, 3}))
      .backward();
  ASSERT_EQ(listener.order.size(), parameters.size());
  EXPECT_EQ(parameters[listener.order.back()].name(), "transformer.wte.weight");
}

TEST(GptModel, LearnsASequenceByHeart) {
  GPT model = small_gpt();
  const Variable x = tokens({1, 5, 2, 9, 4}, 1);
  const Tensor y = Tensor::from(std::vector<std::int64_t>{5, 2, 9, 4, 7}, {1, 5});
  float loss = 0.0F;
  for (int step = 0; step < 300; ++step) {
    const Variable root = cross_entropy(model(x), y);
    loss = root.item();
    root.backward();
    for (const Variable& parameter : model.parameters()) {
      Tensor data = parameter.data();
      ops::axpby(parameter.grad(), {.alpha = -0.5, .beta = 1.0}, data);
      parameter.zero_grad();
    }
  }
  EXPECT_LT(loss, 0.05F);
  EXPECT_EQ(generate(model, {1}, {.count = 5, .temperature = 0.0}),
            (std::vector<std::int64_t>{5, 2, 9, 4, 7}));
}

TEST(GptModel, DropoutLeavesOutElementsInTrainingOnly) {
  GPTOptions options = kSmall;
  options.dropout = 0.5;
  GPT model = small_gpt(1, options);
  const Variable x = tokens({1, 2, 3}, 1);
  const std::uint32_t streams = dropout_position().sequence;
  const auto first = model(x).data().to_vector<float>();
  // Of the embeddings, and in each block of attention's weights and of what is added, twice.
  EXPECT_EQ(dropout_position().sequence - streams, 1 + 3 * options.layers);
  EXPECT_NE(first, model(x).data().to_vector<float>());
  model.eval();
  EXPECT_EQ(model(x).data().to_vector<float>(), model(x).data().to_vector<float>());
}

TEST(GptModel, DropsAttentionsWeightsInTrainingOnly) {
  manual_seed(1);
  CausalSelfAttention layer(4, 2, autograd::Precision::full, 0.5);
  Tensor numbers = Tensor::empty({1, 8, 4});
  ops::uniform({.stream = {.seed = 1}, .low = -1.0, .high = 1.0}, numbers);
  const Variable x(numbers);
  const auto result = [&] { return layer(x).data().to_vector<float>(); };
  const auto first = result();
  EXPECT_NE(first, result());
  for (const double p : {-0.5, 1.0}) {
    CausalSelfAttention wrong(4, 2, autograd::Precision::full, p);
    EXPECT_ERROR(wrong(x), fmt::format("attention: expected a dropout in [0, 1), got {}", p));
  }
  layer.eval();
  const auto whole = result();
  EXPECT_NE(first, whole);
  EXPECT_EQ(whole, result());
}

TEST(KeysAndValuesTest, GiveTheLogitsOfTheWholeSequence) {
  GPT model = small_gpt();
  const std::vector<std::int64_t> sequence{3, 1, 4, 1, 5, 9};
  const auto whole = model(tokens(sequence, 1)).data().to_vector<float>();
  std::vector<KeysAndValues> memory = model.empty_memory();
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    const auto logits = model.forward_next(sequence[i], memory).to_vector<float>();
    for (std::size_t token = 0; token < 11; ++token) {
      EXPECT_NEAR(logits[token], whole[11 * i + token], 1e-5) << i;
    }
  }
  EXPECT_ERROR(model.forward_next(0, memory), "GPT: expected a position below 6, got 6");
}

TEST(Generate, GoesOnWhenTheContextIsFull) {
  GPT model = small_gpt();
  EXPECT_EQ(generate(model, {1, 2}, {.count = 20, .seed = 1}).size(), 20);
  EXPECT_EQ(generate(model, std::vector<std::int64_t>(30, 1), {.count = 3}).size(), 3);
}

TEST(Generate, ReadsTheWholePromptIfItFits) {
  GPT model = small_gpt();
  model.eval();
  const std::int64_t context = model.options().context;
  std::vector<std::int64_t> prompt;
  for (std::int64_t i = 0; i < context; ++i) {
    prompt.push_back(i * 5 % 7 % model.options().vocabulary);
  }
  const Tensor tokens = Tensor::from(prompt, {1, context});
  const std::vector<float> logits = model(Variable(tokens)).data().to_vector<float>();
  const auto last = logits.end() - model.options().vocabulary;
  const std::int64_t likeliest = std::max_element(last, logits.end()) - last;
  EXPECT_EQ(generate(model, prompt, {.count = 1, .temperature = 0.0}).front(), likeliest);
}

TEST(Generate, DependsOnTheSeedAlone) {
  GPT model = small_gpt();
  const auto one = generate(model, {1}, {.count = 30, .seed = 1});
  EXPECT_EQ(one, generate(model, {1}, {.count = 30, .seed = 1}));
  EXPECT_NE(one, generate(model, {1}, {.count = 30, .seed = 2}));
}

TEST(Generate, RefusesAModelWithoutLayersAndOneThatHasDiverged) {
  EXPECT_ERROR(GPT({.layers = 0, .heads = 1, .width = 4, .context = 3, .vocabulary = 5}),
               "GPT: expected at least one layer, got 0");
  GPT model = small_gpt();
  const Variable weight = model.parameters().back();
  Tensor values = weight.data();
  ops::fill(std::nan(""), values);
  EXPECT_ERROR(generate(model, {1}, {.count = 1}),
               "generate: expected numbers from the model, got NaN");
}

TEST(Generate, WithTopKOfOneTakesTheLikeliest) {
  GPT model = small_gpt();
  EXPECT_EQ(generate(model, {1}, {.count = 9, .top_k = 1}),
            generate(model, {1}, {.count = 9, .temperature = 0.0}));
  EXPECT_ERROR(generate(model, {}, {}),
               "generate: expected a prompt of at least one token, got none");
}

}  // namespace
}  // namespace brigade::nn
