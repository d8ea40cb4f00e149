#include "nn/gpt.h"

#include <cmath>

#include "autograd/functions/binary.h"
#include "autograd/functions/shape.h"
#include "autograd/functions/unary.h"
#include "autograd/grad_mode.h"
#include "core/error.h"
#include "nn/init.h"

namespace brigade::nn {
namespace {

/// A module that has others and no forward of its own.
struct Group final : Module {
  using Module::register_module;
  Variable forward(const Variable& x) override { return x; }
};

}  // namespace

GPTBlock::MLP::MLP(const GPTOptions& o)
    : c_fc(o.width, 4 * o.width, {.precision = o.precision}),
      c_proj(4 * o.width, o.width, {.precision = o.precision}) {
  register_module("c_fc", c_fc);
  register_module("c_proj", c_proj);
}

Variable GPTBlock::MLP::forward(const Variable& x) {
  return c_proj(gelu(c_fc(x)));
}

GPTBlock::GPTBlock(const GPTOptions& o)
    : ln_1_(o.width),
      ln_2_(o.width),
      attn_(o.width, o.heads, o.precision),
      mlp_(o),
      dropout_(o.dropout) {
  register_module("ln_1", ln_1_);
  register_module("attn", attn_);
  register_module("ln_2", ln_2_);
  register_module("mlp", mlp_);
  register_module("dropout", dropout_);
}

Variable GPTBlock::forward(const Variable& input) {
  const Variable x = input + dropout_(attn_(ln_1_(input)));
  return x + dropout_(mlp_(ln_2_(x)));
}

Variable GPTBlock::forward_next(const Variable& input, KeysAndValues& before) {
  const Variable x = input + attn_.forward_next(ln_1_(input), before);
  return x + mlp_(ln_2_(x));
}

GPT::GPT(const GPTOptions& o)
    : options_(o),
      wte_(o.vocabulary, o.width),
      wpe_(o.context, o.width),
      dropout_(o.dropout),
      ln_f_(o.width) {
  Group h, transformer;
  for (std::int64_t i = 0; i < o.layers; ++i) {
    h.register_module(std::to_string(i), blocks_.emplace_back(o));
  }
  transformer.register_module("wte", wte_);
  transformer.register_module("wpe", wpe_);
  transformer.register_module("h", h);
  transformer.register_module("ln_f", ln_f_);
  transformer.register_module("dropout", dropout_);
  register_module("transformer", transformer);
  const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(o.layers));
  for (const auto& [name, parameter] : named_parameters()) {
    if (parameter.shape().rank() == 2) {
      init_normal(parameter, name.ends_with("c_proj.weight") ? residual : 0.02);
    } else if (name.ends_with("bias")) {
      parameter.data().zero();
    }
  }
}

Variable GPT::forward(const Variable& tokens) {
  const Shape& shape = tokens.shape();
  BRIGADE_CHECK(shape.rank() == 2 && shape[1] <= options_.context, "GPT: expected tokens [N, T], ",
                "T at most ", options_.context, ", got ", shape);
  // One after the other, not inside one expression: C++ may compute the operands of + in any order,
  // and the function that is recorded last has its gradient first.
  const Variable rows = wte_(tokens);
  Variable x = dropout_(rows + slice(wpe_.weight(), 0, 0, shape[1]));
  for (GPTBlock& block : blocks_) {
    x = block(x);
  }
  return logits(x);
}

Variable GPT::logits(const Variable& x) {
  return linear(ln_f_(x), wte_.weight(), Variable(), options_.precision);
}

Tensor GPT::forward_next(std::int64_t token, std::vector<KeysAndValues>& before) {
  const autograd::NoGradGuard no_grad;
  const Device device = wte_.weight().device();
  const std::int64_t position = before.at(0).length;
  BRIGADE_CHECK(position < options_.context, "GPT: expected a position below ", options_.context,
                ", got ", position);
  const Tensor index = Tensor::from(std::vector{token}, {1, 1}, device);
  Variable x = wte_(index) + slice(wpe_.weight(), 0, position, position + 1);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    x = blocks_[i].forward_next(x, before.at(i));
  }
  return logits(x).data().reshape({options_.vocabulary});
}

std::vector<KeysAndValues> GPT::empty_memory() const {
  const Shape shape{options_.heads, options_.context, options_.width / options_.heads};
  const Device device = wte_.weight().device();
  std::vector<KeysAndValues> memory(blocks_.size());
  for (KeysAndValues& layer : memory) {
    layer = {Tensor::empty(shape, DType::f32, device), Tensor::empty(shape, DType::f32, device)};
  }
  return memory;
}

std::string GPT::description() const {
  const auto& [layers, heads, width, context, vocabulary, dropout, precision] = options_;
  return message_of("GPT(", layers, " layers of width ", width, ", ", heads, " heads, context ",
                    context, ", vocabulary ", vocabulary, ")");
}

}  // namespace brigade::nn
