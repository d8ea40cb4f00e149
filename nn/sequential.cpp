#include "nn/sequential.h"

#include <utility>

#include "core/error.h"
#include "core/runtime/trace.h"
#include "nn/gelu.h"
#include "nn/linear.h"
#include "nn/relu.h"

namespace brigade::nn {
namespace {

/// The activation that a Linear computes in place of `next`, the module behind it. None if `next`
/// is null or another module.
Activation activation_of(const Module* next) {
  return dynamic_cast<const ReLU*>(next) != nullptr   ? Activation::relu
         : dynamic_cast<const GELU*>(next) != nullptr ? Activation::gelu
                                                      : Activation::none;
}

}  // namespace

void Sequential::append(std::unique_ptr<Module> module) {
  BRIGADE_CHECK(module != nullptr, "Sequential: expected a module, got a null pointer");
  register_module(std::to_string(layers_->size()), *module);
  layers_->push_back(std::move(module));
}

Variable Sequential::forward(const Variable& x) {
  const Layers& layers = *layers_;
  Variable y = x;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const TraceScope scope("layer ",
                           [&] { return fmt::format("{} {}", i, layers[i]->description()); });
    const auto* linear = dynamic_cast<const Linear*>(layers[i].get());
    const bool followed = linear != nullptr && i + 1 < layers.size();
    const Activation activation = activation_of(followed ? layers[i + 1].get() : nullptr);
    const bool fused = activation != Activation::none;
    y = fused ? linear->forward_activated(y, activation) : layers[i]->forward(y);
    i += fused ? 1 : 0;
  }
  return y;
}

std::string Sequential::description() const {
  std::string text;
  for (const std::unique_ptr<Module>& layer : *layers_) {
    text += (text.empty() ? "" : " > ") + layer->description();
  }
  return text;
}

}  // namespace brigade::nn
