#include "nn/gpt2_files.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/io/safetensors.h"
#include "core/random.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace brigade::nn {
namespace {

constexpr GPTOptions kSmall{.layers = 1, .heads = 2, .width = 4, .context = 3, .vocabulary = 5};

GPT small_gpt(std::uint64_t seed) {
  manual_seed(seed);
  return GPT(kSmall);
}

std::vector<float> weights_of(const GPT& model) {
  return autograd::values_of(model.parameters());
}

TEST(Gpt2Files, AreReadBackToTheBit) {
  const TemporaryDirectory dir;
  const GPT model = small_gpt(1);
  save_gpt2(model.parameters(), kSmall, dir / "model.safetensors");
  const GPT other = small_gpt(2);
  ASSERT_NE(weights_of(model), weights_of(other));
  load_gpt2(other, dir.path());
  EXPECT_EQ(weights_of(model), weights_of(other));
  ASSERT_TRUE(has_gpt2_config(dir.path()));
  const GPTOptions found = load_gpt2_options(dir.path(), {.dropout = 0.25});
  EXPECT_EQ(found.layers, 1);
  EXPECT_EQ(found.heads, 2);
  EXPECT_EQ(found.width, 4);
  EXPECT_EQ(found.context, 3);
  EXPECT_EQ(found.vocabulary, 5);
  EXPECT_EQ(found.dropout, 0.25);
}

TEST(Gpt2Files, SayWhichDropoutTheyWereTrainedWith) {
  const TemporaryDirectory dir;
  GPTOptions options = kSmall;
  options.dropout = 0.25;
  save_gpt2(small_gpt(1).parameters(), options, dir / "model.safetensors");
  std::ifstream file(dir / "config.json");
  const std::string config(std::istreambuf_iterator<char>(file), {});
  for (const char* key : {"embd_pdrop", "resid_pdrop", "attn_pdrop"}) {
    EXPECT_NE(config.find(fmt::format("\"{}\": 0.25", key)), std::string::npos) << config;
  }
}

TEST(Gpt2Files, HoldLinearLayersWithTheirInputsFirst) {
  const TemporaryDirectory dir;
  const GPT model = small_gpt(1);
  save_gpt2(model.parameters(), kSmall, dir / "model.safetensors");
  for (const auto& [name, tensor] : load_safetensors(dir / "model.safetensors")) {
    if (name == "transformer.h.0.attn.c_attn.weight") {
      EXPECT_EQ(tensor.shape(), (Shape{4, 12}));
      for (const auto& [mine, parameter] : model.named_parameters()) {
        if (mine == name) {  // [12, 4]: element [5, 2] is theirs at [2, 5]
          EXPECT_EQ(tensor.to_vector<float>()[2 * 12 + 5],
                    parameter.data().to_vector<float>()[5 * 4 + 2]);
        }
      }
    }
    if (name == "transformer.wte.weight") {
      EXPECT_EQ(tensor.shape(), (Shape{5, 4}));
    }
  }
}

TEST(Gpt2Files, MayLackThePrefixAndHoldMasksAndATiedHead) {
  const TemporaryDirectory dir;
  const GPT model = small_gpt(1);
  save_gpt2(model.parameters(), kSmall, dir / "model.safetensors");
  NamedTensors old;
  for (const auto& [name, tensor] : load_safetensors(dir / "model.safetensors")) {
    old.emplace_back(name.substr(std::string("transformer.").size()), tensor);
  }
  old.emplace_back("h.0.attn.bias", Tensor::zeros({1, 1, 3, 3}));
  old.emplace_back("lm_head.weight", model.parameters().front().data());
  save_safetensors(dir / "old.safetensors", old);
  const GPT other = small_gpt(2);
  load_gpt2(other, dir / "old.safetensors");
  EXPECT_EQ(weights_of(model), weights_of(other));
  old.back().second = Tensor::zeros({5, 4});
  old.at(1).second = Tensor::zeros(old.at(1).second.shape());
  save_safetensors(dir / "old.safetensors", old);
  EXPECT_ERROR_WITH(load_gpt2(other, dir / "old.safetensors"),
                    "expected lm_head.weight equal to transformer.wte.weight");
  EXPECT_EQ(weights_of(model), weights_of(other)) << "a refused file must change nothing";
}

TEST(Gpt2Files, OfAnotherNetworkAreRefused) {
  const TemporaryDirectory dir;
  save_gpt2(small_gpt(1).parameters(), kSmall, dir / "model.safetensors");
  manual_seed(1);
  const GPT other({.layers = 1, .heads = 2, .width = 4, .context = 3, .vocabulary = 6});
  EXPECT_ERROR_WITH(
      load_gpt2(other, dir.path()),
      "expected transformer.wte.weight [6, 4] f32, got transformer.wte.weight [5, 4] f32");
  const auto config = [&](const std::string& text) {
    std::ofstream(dir / "config.json") << text;
    return load_gpt2_options(dir.path(), {});
  };
  EXPECT_ERROR_WITH(config("{"), "expected a JSON object");
  EXPECT_ERROR_WITH(config(R"({"model_type": "llama"})"),
                    "expected model_type \"gpt2\", got \"llama\"");
  EXPECT_ERROR_WITH(config(R"({"n_layer": -1})"), "expected a positive number n_layer, got -1");
  EXPECT_ERROR_WITH(config(R"({"n_layer": 1, "n_head": 1})"),
                    "expected a positive number n_embd, got nothing");
  EXPECT_ERROR_WITH(config(R"({"tie_word_embeddings": false})"),
                    "expected tie_word_embeddings true, got false");
}

}  // namespace
}  // namespace brigade::nn
