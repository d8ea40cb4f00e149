#include "nn/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/functions/binary.h"
#include "autograd/functions/shape.h"
#include "autograd/grad_mode.h"
#include "core/error.h"
#include "core/random.h"

namespace brigade::nn {
namespace {

/// `number`: uniform in [0, 1).
std::int64_t draw(const std::vector<float>& logits, const GenerateOptions& options, double number) {
  BRIGADE_CHECK(std::ranges::none_of(logits, [](float logit) { return std::isnan(logit); }),
                "generate: expected numbers from the model, got NaN");
  std::vector<std::int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](std::int64_t token) { return logits[static_cast<std::size_t>(token)]; };
  std::ranges::stable_sort(order, std::greater(), logit);
  if (options.temperature == 0.0) {
    return order.front();
  }
  if (options.top_k > 0 && options.top_k < std::ssize(order)) {
    order.resize(static_cast<std::size_t>(options.top_k));
  }
  std::vector<double> sums;  // of the powers up to each token
  for (const std::int64_t token : order) {
    const double power = std::exp((logit(token) - logit(order.front())) / options.temperature);
    sums.push_back((sums.empty() ? 0.0 : sums.back()) + power);
  }
  const auto chosen = std::ranges::upper_bound(sums, number * sums.back());
  return order[std::min(static_cast<std::size_t>(chosen - sums.begin()), order.size() - 1)];
}

}  // namespace

// Each layer remembers the keys and values of the tokens before, so a sequence of T tokens takes T
// rows through the model and not T²/2.
Tensor GPT::forward_next(std::int64_t token, std::vector<KeysAndValues>& before) {
  const autograd::NoGradGuard no_grad;
  const Device device = wte_.weight().device();
  const std::int64_t position = before.at(0).length;
  BRIGADE_CHECK(position < options_.context, "GPT: expected a position below {}, got {}",
                options_.context, position);
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

std::vector<std::int64_t> generate(GPT& model, std::vector<std::int64_t> prompt,
                                   const GenerateOptions& options) {
  BRIGADE_CHECK(!prompt.empty(), "generate: expected a prompt of at least one token, got none");
  const auto context = static_cast<std::size_t>(model.options().context);
  const std::size_t half = (context + 1) / 2;
  std::vector<std::int64_t> tokens = std::move(prompt);
  std::size_t read = tokens.size() - std::min(tokens.size(), context);  // the next for the memory
  const std::size_t given = tokens.size();
  std::vector<KeysAndValues> memory = model.empty_memory();
  while (std::ssize(tokens) < static_cast<std::int64_t>(given) + options.count) {
    Tensor logits;
    for (; read < tokens.size(); ++read) {
      if (memory.at(0).length == model.options().context) {
        read = tokens.size() - half;
        memory = model.empty_memory();
      }
      logits = model.forward_next(tokens[read], memory);
    }
    const std::uint32_t bits =
        random_bits({.seed = options.seed, .sequence = sequences::kGenerate}, tokens.size());
    tokens.push_back(draw(logits.to_vector<float>(), options, unit_float(bits)));
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(given), tokens.end()};
}

}  // namespace brigade::nn
