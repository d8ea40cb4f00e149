#include "nn/gpt_block.h"

#include "autograd/functions/binary.h"

namespace brigade::nn {

GPTBlock::MLP::MLP(const GPTOptions& o)
    : c_fc(o.width, 4 * o.width, {.precision = o.precision}),
      c_proj(4 * o.width, o.width, {.precision = o.precision}) {
  register_module("c_fc", c_fc);
  register_module("c_proj", c_proj);
}

Variable GPTBlock::MLP::forward(const Variable& x) {
  return c_proj(c_fc.forward_activated(x, Activation::gelu));
}

GPTBlock::GPTBlock(const GPTOptions& o)
    : ln_1_(o.width),
      ln_2_(o.width),
      attn_(o.width, o.heads, o.precision, o.dropout),
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

}  // namespace brigade::nn
