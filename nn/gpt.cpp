#include "nn/gpt.h"

#include <cmath>

#include "autograd/functions/binary.h"
#include "autograd/functions/shape.h"
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

GPT::GPT(const GPTOptions& o)
    : options_(o),
      wte_(o.vocabulary, o.width),
      wpe_(o.context, o.width),
      dropout_(o.dropout),
      ln_f_(o.width) {
  BRIGADE_CHECK(o.layers > 0, "GPT: expected at least one layer, got {}", o.layers);
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
  BRIGADE_CHECK(shape.rank() == 2 && shape[1] <= options_.context,
                "GPT: expected tokens [N, T], T at most {}, got {}", options_.context, shape);
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
  return fused_linear(ln_f_(x), wte_.weight(), Variable(), Activation::none, options_.precision);
}

std::string GPT::description() const {
  const auto& [layers, heads, width, context, vocabulary, dropout, precision] = options_;
  return fmt::format("GPT({} layers of width {}, {} heads, context {}, vocabulary {})", layers,
                     width, heads, context, vocabulary);
}

}  // namespace brigade::nn
