#include "apps/training/text.h"

#include <memory>

#include "core/error.h"
#include "nn/data/text.h"
#include "nn/data/tokenizer.h"
#include "nn/generate.h"

namespace brigade::apps {
namespace {

/// No terminal obeys what the model writes.
std::string printable(std::string text) {
  unsigned char before = 0;
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool control = (byte < ' ' && c != '\n' && c != '\t') || byte == 0x7f;
    // U+0080 to U+009F are control characters, too, and in other encodings so is such a byte alone.
    const bool high_control = byte >= 0x80 && byte < 0xa0 && (before < 0x80 || before == 0xc2);
    c = control || high_control ? '?' : c;
    before = byte;
  }
  return text;
}

/// Bytes, or with --tokenizer GPT-2's.
std::unique_ptr<data::Tokenizer> make_tokenizer(const Options& options) {
  if (!options.tokenizer.empty()) {
    return data::load_bpe(options.tokenizer);
  }
  return std::make_unique<data::ByteTokenizer>();
}

}  // namespace

data::DataSplits load_text(const Options& options) {
  const std::string path = options.text.empty() ? BRIGADE_SOURCE_DIRECTORY : options.text;
  return data::load_text(path, *make_tokenizer(options), options.context);
}

void print_sample(const Options& options, nn::GPT& model, const Console& console) {
  const auto tokenizer = make_tokenizer(options);
  const std::vector<std::int32_t> encoded = tokenizer->encode(options.prompt);
  const std::vector<std::int64_t> tokens(encoded.begin(), encoded.end());
  model.eval();
  std::string text = options.prompt;
  for (const std::int64_t token : nn::generate(model, tokens,
                                               {.count = options.sample,
                                               .temperature = options.temperature,
                                               .top_k = options.top_k,
                                               .seed = options.seed})) {
    text += tokenizer->decode(token);
  }
  console.line(console.strong(fmt::format("sample, {} tokens", options.sample)));
  console.line(printable(std::move(text)));
}

}  // namespace brigade::apps
