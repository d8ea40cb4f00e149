#include "nn/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/random.h"

namespace brigade::nn {
namespace {

/// `number`: uniform in [0, 1).
std::int64_t draw(const std::vector<float>& logits, const GenerateOptions& options, double number) {
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
    const std::uint32_t bits = random_bits(options.seed, sequences::kGenerate, tokens.size());
    tokens.push_back(draw(logits.to_vector<float>(), options, unit_float(bits)));
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(given), tokens.end()};
}

}  // namespace brigade::nn
