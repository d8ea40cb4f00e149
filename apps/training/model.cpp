#include "apps/training/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/random.h"
#include "core/runtime/trace.h"
#include "dist/comm/gather.h"
#include "dist/ddp/replica_check.h"
#include "nn/gpt2_files.h"
#include "nn/linear.h"
#include "nn/relu.h"
#include "nn/sequential.h"
#include "nn/weights.h"

namespace brigade::apps {
namespace {

std::unique_ptr<nn::Module> make_mlp(const ModelShape& shape) {
  auto model = std::make_unique<nn::Sequential>();
  for (std::size_t layer = 0; layer + 1 < shape.widths.size(); ++layer) {
    if (layer > 0) {
      model->append(nn::ReLU());
    }
    model->append(nn::Linear(shape.widths[layer], shape.widths[layer + 1],
                             {.bias = shape.bias, .precision = shape.precision}));
  }
  return model;
}

}  // namespace

std::string ModelShape::description() const {
  return gpt ? fmt::format("GPT-2, {} layers of width {}, {} heads, context {}, vocabulary {}",
                           gpt->layers, gpt->width, gpt->heads, gpt->context, gpt->vocabulary)
             : fmt::format("{}", fmt::join(widths, "-"));
}

std::int64_t ModelShape::widest() const {
  return gpt ? tokens() * std::max(4 * gpt->width, gpt->vocabulary) : std::ranges::max(widths);
}

double ModelShape::flops_per_token(std::int64_t parameters) const {
  const std::int64_t multiplied = parameters - gpt->context * gpt->width;  // positions are added
  return 6.0 * static_cast<double>(multiplied) +
         12.0 * static_cast<double>(gpt->layers * gpt->width * tokens());
}

std::unique_ptr<nn::Module> make_network(const ModelShape& shape, std::uint64_t seed,
                                         Device device) {
  manual_seed(seed);
  std::unique_ptr<nn::Module> model =
      shape.gpt ? std::make_unique<nn::GPT>(*shape.gpt) : make_mlp(shape);
  model->to(device);
  return model;
}

ModelShape shape_of(const Options& options, const data::Dataset& data) {
  ModelShape shape;
  shape.precision = options.dtype == "bf16" ? autograd::Precision::bf16 : autograd::Precision::full;
  shape.bias = options.bias;
  if (options.model == "gpt") {
    shape.gpt = options.gpt;
    if (!options.init.empty() && nn::has_gpt2_config(options.init) &&
        options.gpt.vocabulary != data.output_width()) {
      throw UsageError(
          fmt::format("--tokenizer: expected the vocabulary of --init, {} tokens, got {}",
                      options.gpt.vocabulary, data.output_width()));
    }
    shape.gpt->vocabulary = data.output_width();
    shape.gpt->precision = shape.precision;
  } else {
    shape.widths = options.hidden;
  }
  shape.widths.insert(shape.widths.begin(), data.input_width());
  shape.widths.push_back(data.output_width());
  return shape;
}

std::unique_ptr<nn::Module> make_model(const Options& options, const data::Dataset& data,
                                       std::uint64_t seed, Device device) {
  auto model = make_network(shape_of(options, data), seed, device);
  const auto* gpt = dynamic_cast<const nn::GPT*>(model.get());
  if (!options.init.empty()) {
    const ScopeName scope(kWritesFiles);
    gpt != nullptr ? nn::load_gpt2(*gpt, options.init) : nn::load(*model, options.init);
  }
  return model;
}

void drop_other_elements(std::uint64_t seed, int rank) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2⁶⁴ divided by the golden ratio
  set_dropout_position(
      {.seed = seed + kOdd * static_cast<std::uint64_t>(rank), .sequence = sequences::kDropout});
}

nn::Loss* make_loss(const std::string& name) {
  return name == "mse" ? nn::mse_loss : nn::cross_entropy;
}

WeightsHash hash_weights(const std::vector<autograd::Variable>& parameters,
                         dist::Communicator& comm) {
  const auto hashes = dist::all_gather_values(comm, dist::hash_parameters(parameters));
  return {hashes.front(), std::ranges::count(hashes, hashes.front()) == std::ssize(hashes)};
}

std::int64_t count_elements(const std::vector<autograd::Variable>& parameters) {
  std::int64_t count = 0;
  for (const autograd::Variable& parameter : parameters) {
    count += parameter.shape().numel();
  }
  return count;
}

}  // namespace brigade::apps
